/** Reads CSV files: first as a whole, to refuse what can't be imported, then in steps that may begin anywhere. */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { pipeline } from "node:stream";
import { TextDecoder } from "node:util";
import { CsvError, type Info, parse } from "csv-parse";
import { UserError } from "../shared/problem.ts";

/** A file that can be imported. */
export interface CsvFile {
  /** Absolute. */
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** When it was last written, milliseconds since 1970. */
  readonly modified: number;
  /** Of its content. */
  readonly sha256: string;
  readonly delimiter: string;
  /** Names from the header, each different. */
  readonly columns: readonly string[];
  /** Where the first row begins, bytes. */
  readonly start: number;
  /** Rows after the header. */
  readonly rows: number;
}

/** Some rows of a file, in order. */
export interface Step {
  readonly rows: readonly (readonly string[])[];
  /** Where the next row begins, bytes. */
  readonly end: number;
}

/** What a step ends with, whichever comes first. */
const STEP = { rows: 100, characters: 1_000_000 } as const;
/** A row becomes the args of a job, which may have 1 MiB as JSON; the rest is for what else stands there. */
const ROW_MAX_BYTES = 1024 * 1024 - 1024;
/** Bytes that one character can become in JSON, for example `\u0001`. */
const LARGEST_CHARACTER = 6;
const DELIMITERS = [",", ";", "\t", "|"] as const;
/** The header is looked for in so many bytes. */
const HEAD_BYTES = 64 * 1024;

/** Reads the whole file once. @throws UserError when it can't be imported */
export async function inspectCsv(path: string): Promise<CsvFile> {
  const file = resolve(path);
  const { size, modified } = await statFile(file);
  const delimiter = detectDelimiter(await readHead(file));
  const hash = createHash("sha256");
  let header: CsvRow | null = null;
  let rows = 0;
  for await (const row of parseRows(checkedContent(file, hash), { path: file, delimiter, bom: true })) {
    if (header === null) header = row;
    else refuseHugeRow(file, row.fields, ++rows);
  }
  if (header === null) throw new UserError(`${file} is empty`);
  if (rows === 0) throw new UserError(`${file} has a header but no rows`);
  const columns = nameColumns(header.fields);
  return { path: file, size, modified, sha256: hash.digest("hex"), delimiter, columns, start: header.end, rows };
}

/** Size and time of last writing. @throws UserError for what is not a file that can be read */
export async function statFile(path: string): Promise<{ readonly size: number; readonly modified: number }> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new UserError(`${path} is a directory, not a CSV file`);
    if (!found.isFile()) throw new UserError(`${path} is not a file`);
    return { size: found.size, modified: Math.floor(found.mtimeMs) };
  } catch (error) {
    throw readable(error, path);
  }
}

/** The rows from byte `offset` on, which must be where a row begins. @throws UserError */
export async function* readSteps(path: string, delimiter: string, offset: number): AsyncGenerator<Step> {
  let rows: (readonly string[])[] = [];
  let characters = 0;
  let last = offset;
  const source = createReadStream(path, { start: offset });
  for await (const { fields, end } of parseRows(source, { path, delimiter, bom: offset === 0 })) {
    rows.push(fields);
    last = offset + end;
    characters += fields.reduce((sum, field) => sum + field.length, 0);
    if (rows.length < STEP.rows && characters < STEP.characters) continue;
    yield { rows, end: last };
    rows = [];
    characters = 0;
  }
  if (rows.length > 0) yield { rows, end: last };
}

/** The character of those that usually separate fields which the header has most of, outside of quotes. */
export function detectDelimiter(head: string): string {
  const counts = new Map<string, number>(DELIMITERS.map((delimiter) => [delimiter, 0]));
  const [header = ""] = head.trimStart().split(/[\r\n]/, 1);
  for (const character of header.replaceAll(/"[^"]*"/g, "")) {
    const count = counts.get(character);
    if (count !== undefined) counts.set(character, count + 1);
  }
  // The first one of those with equal counts, and the comma when there is none.
  return [...counts].reduce((best, next) => (next[1] > best[1] ? next : best))[0];
}

/** Gives columns without a name one, and repeated names a number. */
export function nameColumns(header: readonly string[]): string[] {
  const taken = new Set<string>();
  return header.map((field, index) => {
    const name = field.trim() || `column ${index + 1}`;
    let unique = name;
    for (let count = 2; taken.has(unique); count++) unique = `${name} (${count})`;
    taken.add(unique);
    return unique;
  });
}

interface CsvRow {
  readonly fields: readonly string[];
  /** Where the next row begins, counted from the start of the source. */
  readonly end: number;
}

interface ParseOptions {
  /** For messages. */
  readonly path: string;
  readonly delimiter: string;
  /** A byte order mark may stand at the start. */
  readonly bom: boolean;
}

async function* parseRows(
  source: AsyncIterable<Buffer>,
  { path, delimiter, bom }: ParseOptions,
): AsyncGenerator<CsvRow> {
  const parser = parse({
    delimiter,
    bom,
    info: true,
    skip_empty_lines: true,
    // A row with too few or too many fields is a matter for its own job.
    relax_column_count: true,
    // Named, because a parser that starts in the middle of the file must not find out something else.
    record_delimiter: ["\r\n", "\n", "\r"],
    max_record_size: ROW_MAX_BYTES,
  });
  // When either end fails or is left, the other is closed too. The error comes out of the loop below.
  pipeline(source, parser, () => {});
  try {
    for await (const { record, info } of parser as AsyncIterable<{ record: string[]; info: Info }>) {
      yield { fields: record, end: info.bytes };
    }
  } catch (error) {
    throw readable(error, path);
  }
}

/** What stands in the file, as long as it is text; adds it to `hash`. */
async function* checkedContent(path: string, hash: Hash): AsyncGenerator<Buffer> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    if (chunk.includes(0)) throw new UserError(`${path} is not a CSV file: it has binary content, or is UTF-16 text`);
    decode(decoder, path, chunk);
    hash.update(chunk);
    yield chunk;
  }
  decode(decoder, path);
}

function decode(decoder: TextDecoder, path: string, chunk?: Buffer): void {
  try {
    decoder.decode(chunk, { stream: chunk !== undefined });
  } catch {
    throw new UserError(`${path} is not UTF-8 text; save it as UTF-8 and try again`);
  }
}

async function readHead(path: string): Promise<string> {
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead).replace(/^\uFEFF/, "");
  } catch (error) {
    throw readable(error, path);
  }
}

function refuseHugeRow(path: string, fields: readonly string[], row: number): void {
  const characters = fields.reduce((sum, field) => sum + field.length + 3, 0);
  // Nearly all rows are far too short to be worth encoding.
  if (characters * LARGEST_CHARACTER <= ROW_MAX_BYTES) return;
  if (Buffer.byteLength(JSON.stringify(fields)) > ROW_MAX_BYTES)
    throw new UserError(`${path}, row ${row}: ${TOO_LONG}`);
}

const TOO_LONG = "the row is longer than 1 MiB; perhaps a quote is not closed";

const WHY: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: "the file ends inside of a quoted field",
  INVALID_OPENING_QUOTE: "a quote stands inside of a field that does not begin with one; it must be quoted",
  CSV_INVALID_CLOSING_QUOTE: 'a quoted field goes on after its closing quote; a quote inside must be written ""',
  CSV_MAX_RECORD_SIZE: TOO_LONG,
  ENOENT: "does not exist",
  ENOTDIR: "does not exist",
  EACCES: "may not be read",
  EPERM: "may not be read",
};

/** The error in words, if it is the file's fault. */
function readable(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  const why = WHY[String(error.code)];
  if (why === undefined) return error;
  return new UserError(error instanceof CsvError ? `${path}, line ${error["lines"]}: ${why}` : `${path} ${why}`);
}
