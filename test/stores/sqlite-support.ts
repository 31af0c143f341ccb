/** What the tests of the SQLite store share: files, other processes, and waiting for conditions. */
import assert from "node:assert/strict";
import { type ChildProcess, type ForkOptions, fork } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readdirSync, readlinkSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { StoreEvent } from "../../engine/store.ts";
import { SqliteStore, type SqliteStoreOptions } from "../../engine/stores/sqlite/index.ts";
import type { Message, Request } from "./sqlite-child.ts";

/** A new directory that every user may enter; removed when the test ends. */
export function directoryFor(t: TestContext): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "kiln-sqlite-")));
  chmodSync(directory, 0o755);
  t.after(() => {
    chmodSync(directory, 0o755);
    rmSync(directory, { recursive: true });
  });
  return directory;
}

export const fileFor = (t: TestContext): string => join(directoryFor(t), "jobs.db");

/** Closed when the test ends. */
export async function openStore(t: TestContext, options: SqliteStoreOptions): Promise<SqliteStore> {
  const store = await SqliteStore.open(options);
  t.after(() => store.close());
  return store;
}

/** Files in the directory that this process has open, where the system tells (Linux). */
export function openFilesIn(directory: string): string[] {
  try {
    return readdirSync("/proc/self/fd").flatMap((fd) => {
      const file = linkTarget(`/proc/self/fd/${fd}`);
      return file.startsWith(directory) ? [file] : [];
    });
  } catch {
    return [];
  }
}

function linkTarget(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** Waits until `done`, at most 10 s. */
export async function until(done: () => boolean, what: string): Promise<void> {
  for (const start = performance.now(); !done(); ) {
    assert.ok(performance.now() - start < 10_000, `not within 10 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

export interface Reply {
  readonly value: unknown;
  /** When the other process began with the request; see `clock` in `sqlite-child.ts`. */
  readonly at: number;
}

/** Another process with a SQLite store of its own. */
export class OtherProcess {
  /** What its store has told it. */
  readonly events: StoreEvent[] = [];
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #requests = 0;

  constructor(t: TestContext, options: { readonly maxFiles?: number } = {}) {
    const child = join(import.meta.dirname, "sqlite-child.ts");
    const spawning: ForkOptions = {
      execArgv: [],
      serialization: "advanced",
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    };
    this.#process = options.maxFiles
      ? fork("-c", [`ulimit -n ${options.maxFiles}; exec "$0" "$1"`, process.execPath, child], {
          ...spawning,
          execPath: "/bin/sh",
        })
      : fork(child, spawning);
    this.#process.on("message", (message: Message) => this.#receive(message));
    t.after(() => {
      this.#process.kill("SIGKILL");
    });
  }

  open(options: Omit<SqliteStoreOptions, "runtime">): Promise<Reply> {
    return this.request({ command: "open", options });
  }

  /** Calls a method of its store. */
  call(method: keyof SqliteStore, ...args: readonly unknown[]): Promise<Reply> {
    return this.request({ command: "call", method, args });
  }

  /** Rejects with an error that has the code and message of the other's. */
  async request(request: Omit<Request, "id">): Promise<Reply> {
    this.#requests += 1;
    const id = this.#requests;
    const answered = new Promise<Message>((resolve) => this.#waiting.set(id, resolve));
    this.#process.send({ ...request, id });
    const message = await answered;
    if (message.type === "failure") throw Object.assign(new Error(message.message), { code: message.code });
    assert.equal(message.type, "reply");
    return message as Reply & Message;
  }

  /** Lets it end by itself and returns its exit code. */
  async leave(): Promise<number | null> {
    this.#process.send({ command: "leave", id: 0 });
    const [code] = (await once(this.#process, "exit")) as [number | null];
    return code;
  }

  #receive(message: Message): void {
    if (message.type === "event") this.events.push(message.event as StoreEvent);
    else {
      this.#waiting.get(message.id)?.(message);
      this.#waiting.delete(message.id);
    }
  }
}
