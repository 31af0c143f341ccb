/** Free text from outside, made fit for every database: no NUL, no lone surrogates, not too long. */

/** Removes NULs and replaces lone surrogates by U+FFFD. */
export function cleanText(text: string): string {
  // In this order, because two lone surrogates with a NUL between them are not a character.
  return text.toWellFormed().replaceAll("\u0000", "");
}

/** `text`, cleaned and cut to at most `maxBytes` of UTF-8 without splitting a character. */
export function cutText(text: string, maxBytes: number): string {
  // Even at four bytes a UTF-16 unit nothing beyond maxBytes units can stay, so a huge text is never scanned whole.
  const clean = cleanText(head(text, maxBytes * 2));
  if (clean.length * 3 <= maxBytes || Buffer.byteLength(clean) <= maxBytes) return clean;
  const bytes = Buffer.from(clean).subarray(0, maxBytes);
  // A cut in the middle of a character decodes to U+FFFD; find the last whole one instead.
  let end = bytes.length;
  while (end > 0 && ((bytes[end - 1] as number) & 0xc0) === 0x80) end--;
  const lead = end > 0 ? (bytes[end - 1] as number) : 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  const whole = end - 1 + length <= bytes.length ? end - 1 + length : end - 1;
  return bytes.subarray(0, Math.max(whole, 0)).toString("utf8");
}

/** The first `units` UTF-16 units, one less where that would cut a surrogate pair in two. */
function head(text: string, units: number): string {
  if (text.length <= units) return text;
  const cutsPair = (text.charCodeAt(units - 1) & 0xfc00) === 0xd800 && (text.charCodeAt(units) & 0xfc00) === 0xdc00;
  return text.slice(0, cutsPair ? units - 1 : units);
}

/** A value, whatever it is, as short readable text for an error message. Never throws. */
export function shown(value: unknown): string {
  try {
    return cutText(describe(value), 100);
  } catch {
    // A getter, a proxy or a `toJSON` of its own that throws, a cycle, or nesting too deep for the stack.
    return typeof value === "function" ? "a function" : "an unreadable object";
  }
}

/** How much of an object is shown: an error message may be about a value without end. */
const SHOWN = { items: 5, depth: 3 } as const;

function describe(value: unknown, depth = 0): string {
  if (typeof value === "string") return JSON.stringify(head(value, 100));
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "an invalid Date" : value.toISOString();
  if (typeof value === "object" && value !== null) return depth < SHOWN.depth ? describeObject(value, depth) : "…";
  return String(value);
}

function describeObject(value: object, depth: number): string {
  if ("toJSON" in value && typeof value.toJSON === "function") return describe(value.toJSON(), depth + 1);
  const list = Array.isArray(value);
  const keys = list ? value.slice(0, SHOWN.items + 1).keys() : Object.keys(value).slice(0, SHOWN.items + 1);
  const parts = [...keys].map((key, index) => {
    if (index === SHOWN.items) return "…";
    const part = describe(Reflect.get(value, key), depth + 1);
    return list ? part : `${describe(key)}:${part}`;
  });
  return list ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}
