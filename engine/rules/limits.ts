/** Sizes and ranges that client and stores hold values to. */

export const KIND = { maxBytes: 128, pattern: /^[A-Za-z][A-Za-z0-9_.:-]*$/ } as const;
export const QUEUE = { maxBytes: 64, pattern: /^[a-z0-9_.:-]+$/, refused: [".", ".."] } as const;
/** Ids and groups of recurring jobs. */
export const RECURRING = { maxBytes: 200, pattern: /^[A-Za-z0-9_.:-]+$/, refused: [".", ".."] } as const;
export const PRIORITY = { min: -32_768, max: 32_767 } as const;
export const ATTEMPTS = { min: 1, max: 32_767 } as const;
/** Of a limit: bytes of its key, and the highest `max`, `rate` and `burst`. */
export const LIMIT = { keyMaxBytes: 200, max: 1_000_000 } as const;
export const TAGS = { max: 32, maxBytes: 64 } as const;
export const META = { maxKeys: 64, maxBytes: 16 * 1024 } as const;
/** Keys of meta that begin like this are kiln's own. */
export const META_RESERVED = "kiln.";
/** Args, output and params, each as encoded JSON. */
export const JSON_MAX_BYTES = 1024 * 1024;
/** The name of a checkpoint. */
export const PARAM_KEY_MAX_BYTES = 256;
export const TITLE_MAX_BYTES = 200;
/** Of a batch. */
export const DESCRIPTION_MAX_BYTES = 1024;
export const REASON_MAX_BYTES = 256;
export const ERROR_MAX_BYTES = 2 * 1024;
export const TRACE_MAX_BYTES = 8 * 1024;
export const HISTORY_MAX_ENTRIES = 16;
/** Of a job's console: lines of one attempt (then one more says that the rest is missing), and lines in one page. */
export const CONSOLE = { maxLines: 1_000, lineMaxBytes: 4 * 1024, page: { default: 100, max: 500 } } as const;
export const PROGRESS = { min: 0, max: 100 } as const;
/** Statistics are kept by the minute, milliseconds. */
export const MINUTE = 60_000;
/** Counts of live jobs stop here. */
export const COUNT_CAP = 100_000;
/** Children that a job's record names. */
export const CHILDREN_SHOWN = 1_000;
export const PAGE = { default: 20, max: 500 } as const;
/** A hundred years: the longest delay, timeout or retention, far within what all databases store. */
export const LONGEST_DURATION = 100 * 366 * 24 * 3_600_000;
/** The instants that every store can hold: years 1970 to 9999. */
export const INSTANT = { min: 0, max: Date.UTC(9999, 11, 31, 23, 59, 59, 999) } as const;
