/** Shows the progress: a table that is drawn anew in its place, or plain lines where there is no terminal. */
import { clearScreenDown, cursorTo, moveCursor } from "node:readline";
import type { WriteStream } from "node:tty";
import { stripVTControlCharacters, styleText } from "node:util";
import type { Progress } from "./progress.ts";

/** What is shown. */
export interface View extends Progress {
  /** Rows that end in a second, lately. */
  readonly rate: number;
  /** Milliseconds since the start of this process. */
  readonly elapsed: number;
  /** Asked to stop. */
  readonly stopping: boolean;
}

export interface Display {
  show(view: View): void;
  /** A line that stays. */
  line(text: string): void;
  /** What was shown last stays; lines may follow. */
  close(): void;
}

/** Not drawn over where the environment asks for plain output, or nobody looks. */
export function makeDisplay(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Display {
  const plain = !stream.isTTY || env["NO_COLOR"] || env["CI"] || env["TERM"] === "dumb";
  return plain ? new PlainDisplay((line) => stream.write(`${line}\n`)) : new LiveDisplay(stream);
}

const PLAIN_INTERVAL = 1_000;

/** One line a second, if anything has changed. */
export class PlainDisplay implements Display {
  readonly #write: (line: string) => void;
  #failures: readonly string[] = [];
  #last = "";
  #shownAt = Number.NEGATIVE_INFINITY;

  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  show(view: View): void {
    this.#failures = view.failures;
    if (view.elapsed < this.#shownAt + PLAIN_INTERVAL && !view.drained) return;
    const states = plainStates(view);
    if (states === this.#last) return;
    this.#shownAt = view.elapsed;
    this.#last = states;
    this.#write(`${seconds(view.elapsed).padStart(6)}  ${states}  ${plainRates(view)}`);
  }

  line(text: string): void {
    this.#write(text);
  }

  close(): void {
    if (this.#failures.length > 0) this.#write("rows that failed last:");
    for (const reason of this.#failures) this.#write(`  ${reason}`);
  }
}

function plainStates({ jobs, rows, stored, refused }: View): string {
  const states = STATES.map(([state, title]) => `${title} ${number(jobs[state])}`);
  return [`${percent(stored + refused, rows)} done`, ...states].join("  ");
}

function plainRates({ rate, oldest }: View): string {
  return `${number(Math.round(rate))} rows/s  oldest ready ${oldest === null ? "none" : seconds(oldest)}`;
}

class LiveDisplay implements Display {
  readonly #stream: WriteStream;
  #view: View | null = null;
  #drawn = 0;

  constructor(stream: WriteStream) {
    this.#stream = stream;
  }

  show(view: View): void {
    this.#view = view;
    this.#clear();
    // One column less: a line that fills the last one makes some terminals wrap.
    const lines = renderTable(view, (this.#stream.columns || 80) - 1);
    this.#stream.write(lines.map((line) => `${line}\n`).join(""));
    this.#drawn = lines.length;
  }

  line(text: string): void {
    this.#clear();
    this.#stream.write(`${text}\n`);
    if (this.#view !== null) this.show(this.#view);
  }

  close(): void {
    this.#view = null;
    this.#drawn = 0;
  }

  #clear(): void {
    if (this.#drawn === 0) return;
    moveCursor(this.#stream, 0, -this.#drawn);
    cursorTo(this.#stream, 0);
    clearScreenDown(this.#stream);
    this.#drawn = 0;
  }
}

const STATES = [
  ["enqueued", "enqueued"],
  ["processing", "processing"],
  ["scheduled", "retrying"],
  ["succeeded", "succeeded"],
  ["failed", "failed"],
] as const;

const COLUMN = 11;
const BAR_MAX = 60;
const LABEL = "  jobs  ";

/** The table as lines of at most `width` characters. */
export function renderTable(view: View, width: number): string[] {
  const { jobs, rows, stored, refused, oldest, rate, failures } = view;
  const done = stored + refused;
  const titles = STATES.map(([, title]) => dim(title.padStart(COLUMN)));
  const counts = STATES.map(([state]) => colored(state, number(jobs[state]).padStart(COLUMN)));
  const facts = [
    `${number(Math.round(rate))} rows/s`,
    oldest === null ? "no row is waiting" : `oldest ready row ${seconds(oldest)}`,
    ...(view.stopping ? [styleText("yellow", "stopping")] : remaining(view)),
  ];
  const label = width >= LABEL.length + STATES.length * COLUMN ? LABEL : "";
  return [
    "",
    `${dim(label)}${titles.join("")}`,
    `${" ".repeat(label.length)}${counts.join("")}`,
    "",
    `  ${bar(view, Math.min(width - 34, BAR_MAX))} ${percent(done, rows)}  ${number(done)} of ${number(rows)} rows`,
    `  ${facts.join(dim("  ·  "))}`,
    "",
    ...failures.map((reason) => `  ${styleText("red", "✗")} ${dim(reason)}`),
  ].map((line) => cut(line, width));
}

/** Full for what is done, shaded for what has been read but waits. */
function bar({ rows, read, stored, refused }: View, width: number): string {
  const at = (part: number): number => Math.round((Math.max(width, 0) * Math.min(part, rows)) / Math.max(rows, 1));
  const done = at(stored + refused);
  const waiting = Math.max(at(read) - done, 0);
  const rest = Math.max(width - done - waiting, 0);
  return styleText("green", "█".repeat(done)) + styleText("green", "▒".repeat(waiting)) + dim("░".repeat(rest));
}

function remaining({ rows, stored, refused, rate }: View): string[] {
  const left = rows - stored - refused;
  return left > 0 && rate >= 1 ? [`about ${number(Math.ceil(left / rate))} s left`] : [];
}

function colored(state: (typeof STATES)[number][0], text: string): string {
  if (text.trim() === "0") return dim(text);
  if (state === "succeeded") return styleText("green", text);
  if (state === "failed") return styleText("red", text);
  return state === "scheduled" ? styleText("yellow", text) : text;
}

function dim(text: string): string {
  return styleText("dim", text);
}

/** Without its colours when it has to be cut, as they would not be closed. */
function cut(line: string, width: number): string {
  let left = width;
  let text = "";
  for (const character of stripVTControlCharacters(line)) {
    left -= WIDE.test(character) ? 2 : 1;
    if (left < 0) return `${text.slice(0, -1)}…`;
    text += character;
  }
  return line;
}

/** What takes two columns. */
const WIDE = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{Emoji_Presentation}\uFF01-\uFF60]/u;

export function number(value: number): string {
  return value.toLocaleString("en-US");
}

export function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${number(Math.round(ms / 1_000))} s`;
}

function percent(part: number, all: number): string {
  return `${Math.floor((100 * part) / Math.max(all, 1))} %`.padStart(5);
}

/** How many rows end in a second, counted over the last few. */
export class Rate {
  readonly #samples: { readonly at: number; readonly done: number }[] = [];

  /** `done` rows so far, at `at` milliseconds. */
  add(done: number, at: number): number {
    this.#samples.push({ at, done });
    while ((this.#samples[1]?.at ?? at) < at - RATE_WINDOW) this.#samples.shift();
    const [first] = this.#samples;
    return first === undefined || at === first.at ? 0 : (1_000 * (done - first.done)) / (at - first.at);
  }
}

const RATE_WINDOW = 3_000;
