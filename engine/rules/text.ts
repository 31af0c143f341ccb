/** Free text from outside, made fit for every database: no NUL, no lone surrogates, not too long. */

/** Removes NULs and replaces lone surrogates by U+FFFD. */
export function cleanText(text: string): string {
  return text.replaceAll("\u0000", "").toWellFormed();
}

/** `text`, cleaned and cut to at most `maxBytes` of UTF-8 without splitting a character. */
export function cutText(text: string, maxBytes: number): string {
  // Even at four bytes a UTF-16 unit nothing beyond maxBytes units can stay, so a huge text is never scanned whole.
  const clean = cleanText(text.length > maxBytes * 2 ? text.slice(0, maxBytes * 2) : text);
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

/** A value as short readable text for an error message. */
export function shown(value: unknown): string {
  return cutText(describe(value), 100);
}

function describe(value: unknown): string {
  try {
    if (typeof value === "string") return JSON.stringify(value.length > 100 ? value.slice(0, 100) : value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return "a function";
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "an invalid Date" : value.toISOString();
    if (typeof value === "object" && value !== null)
      return JSON.stringify(value) ?? Object.prototype.toString.call(value);
    return String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}
