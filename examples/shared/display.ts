/** Shows the progress: a table that is drawn anew in its place, or plain lines where there is no terminal. */
import { clearScreenDown, cursorTo, moveCursor } from "node:readline";
import type { WriteStream } from "node:tty";
import { stripVTControlCharacters, styleText } from "node:util";
import type { Counts } from "kiln";

/** What every view has. */
export interface Shown {
  /** Milliseconds since the start of this process. */
  readonly elapsed: number;
  /** Nothing is left to do. */
  readonly drained: boolean;
  /** Why jobs failed for good, the latest first. */
  readonly failures: readonly string[];
}

/** What a view looks like. */
export interface Layout<View extends Shown> {
  /** What stands above the failures; lines longer than `width` characters are cut. */
  table(view: View, width: number): string[];
  /** For where there is no terminal: what is worth a line when it changes, and what stands beside it. */
  plain(view: View): readonly [news: string, rest: string];
  /** What the failures are called. */
  readonly failures: string;
}

export interface Display<View> {
  show(view: View): void;
  /** A line that stays. */
  line(text: string): void;
  /** What was shown last stays; lines may follow. */
  close(): void;
}

/** Not drawn over where the environment asks for plain output, or nobody looks. */
export function makeDisplay<View extends Shown>(
  layout: Layout<View>,
  stream: NodeJS.WriteStream,
  env: NodeJS.ProcessEnv,
): Display<View> {
  const plain = !stream.isTTY || env["NO_COLOR"] || env["CI"] || env["TERM"] === "dumb";
  return plain ? new PlainDisplay(layout, (line) => stream.write(`${line}\n`)) : new LiveDisplay(layout, stream);
}

const PLAIN_INTERVAL = 1_000;

/** One line a second, if anything has changed. */
export class PlainDisplay<View extends Shown> implements Display<View> {
  readonly #layout: Layout<View>;
  readonly #write: (line: string) => void;
  #failures: readonly string[] = [];
  #last = "";
  #shownAt = Number.NEGATIVE_INFINITY;

  constructor(layout: Layout<View>, write: (line: string) => void) {
    this.#layout = layout;
    this.#write = write;
  }

  show(view: View): void {
    this.#failures = view.failures;
    if (view.elapsed < this.#shownAt + PLAIN_INTERVAL && !view.drained) return;
    const [news, rest] = this.#layout.plain(view);
    if (news === this.#last) return;
    this.#shownAt = view.elapsed;
    this.#last = news;
    this.#write(`${seconds(view.elapsed).padStart(6)}  ${news}  ${rest}`);
  }

  line(text: string): void {
    this.#write(text);
  }

  close(): void {
    if (this.#failures.length > 0) this.#write(`${this.#layout.failures}:`);
    for (const reason of this.#failures) this.#write(`  ${reason}`);
  }
}

class LiveDisplay<View extends Shown> implements Display<View> {
  readonly #layout: Layout<View>;
  readonly #stream: WriteStream;
  #view: View | null = null;
  #drawn = 0;

  constructor(layout: Layout<View>, stream: WriteStream) {
    this.#layout = layout;
    this.#stream = stream;
  }

  show(view: View): void {
    this.#view = view;
    this.#clear();
    // One column less: a line that fills the last one makes some terminals wrap.
    const width = (this.#stream.columns || 80) - 1;
    const lines = renderTable(this.#layout, view, width);
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

/** The table as lines of at most `width` characters. */
export function renderTable<View extends Shown>(layout: Layout<View>, view: View, width: number): string[] {
  const failures = view.failures.map((reason) => `  ${styleText("red", "✗")} ${dim(reason)}`);
  return [...layout.table(view, width), "", ...failures].map((line) => cut(line, width));
}

// ------------------------------------------------------------------------------------------------------ parts of a table

/** States of jobs that a table has columns for, and what it calls them. */
export type StateTitles = readonly (readonly [state: Exclude<keyof Counts, "capped">, title: string])[];

const COLUMN = 11;
const LABEL = "  jobs  ";

/** Two lines: titles, and how many jobs there are. */
export function stateLines(jobs: Counts, states: StateTitles, width: number): string[] {
  const titles = states.map(([, title]) => dim(title.padStart(COLUMN)));
  const counts = states.map(([state]) => colored(state, number(jobs[state]).padStart(COLUMN)));
  const label = width >= LABEL.length + states.length * COLUMN ? LABEL : "";
  return [`${dim(label)}${titles.join("")}`, `${" ".repeat(label.length)}${counts.join("")}`];
}

export function plainStates(jobs: Counts, states: StateTitles): string {
  return states.map(([state, title]) => `${title} ${number(jobs[state])}`).join("  ");
}

function colored(state: StateTitles[number][0], text: string): string {
  if (text.trim() === "0") return dim(text);
  if (state === "succeeded") return styleText("green", text);
  if (state === "failed") return styleText("red", text);
  return state === "scheduled" ? styleText("yellow", text) : text;
}

export interface BarParts {
  /** Shown full. */
  readonly done: number;
  /** Shown shaded: what has begun, `done` included. */
  readonly begun: number;
  readonly all: number;
}

/** `width` characters. */
export function bar({ done, begun, all }: BarParts, width: number): string {
  const at = (part: number): number => Math.round((Math.max(width, 0) * Math.min(part, all)) / Math.max(all, 1));
  const full = at(done);
  const shaded = Math.max(at(begun) - full, 0);
  const rest = Math.max(width - full - shaded, 0);
  return styleText("green", "█".repeat(full)) + styleText("green", "▒".repeat(shaded)) + dim("░".repeat(rest));
}

export function dim(text: string): string {
  return styleText("dim", text);
}

/** Facts beside each other. */
export function facts(list: readonly string[]): string {
  return list.join(dim("  ·  "));
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

export function percent(part: number, all: number): string {
  return `${Math.floor((100 * part) / Math.max(all, 1))} %`.padStart(5);
}

/** How many end in a second, counted over the last few. */
export class Rate {
  readonly #samples: { readonly at: number; readonly done: number }[] = [];

  /** `done` so far, at `at` milliseconds. */
  add(done: number, at: number): number {
    this.#samples.push({ at, done });
    while ((this.#samples[1]?.at ?? at) < at - RATE_WINDOW) this.#samples.shift();
    const [first] = this.#samples;
    return first === undefined || at === first.at ? 0 : (1_000 * (done - first.done)) / (at - first.at);
  }
}

const RATE_WINDOW = 3_000;
