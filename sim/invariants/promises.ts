/** Numbers of the documentation that invariants rest on; not taken from the engine, which could change them unseen. */

/** Microseconds. A job that was admitted by a rate starts within this time of its admission, or is handed back. */
export const START_SLACK = 500_000;
/** Milliseconds. A key of limits that nobody uses for so long is forgotten. */
export const LIMIT_FORGOTTEN = 3_600_000;
/** Milliseconds. A leader repairs what a clock that stepped back has closed at least this often. */
export const SWEEP = 10_000;
/** Milliseconds. Smaller steps back of the clock are not noticed. */
export const UNNOTICED_STEP = 100;
/** Milliseconds. `skip` lets an occurrence fire that is at most so late. */
export const SKIP_LATE = 60_000;
/** Most occurrences that fire at once, and most skipped ones that are counted. */
export const FIRE_AT_ONCE = 100;
export const SKIPPED_COUNTED = 1_000;
