/** Something that the person at the terminal can put right: shown in one line, without a stack trace. */
export class UserError extends Error {}
