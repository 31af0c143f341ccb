/** The shop's side of the payment gateway. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { PermanentError } from "kiln";
import type { ChargeRequest, GatewayNews, GatewayReply, GatewayStatistics } from "./gateway.ts";

/**
 * Charges once for each key, however often it is called. Returns the number of the charge.
 * @throws Error when it may be tried again; PermanentError when that is of no use
 */
export async function charge(gateway: string, request: ChargeRequest, signal: AbortSignal): Promise<number> {
  const { key, ...body } = request;
  const response = await fetch(`${gateway}/charges`, {
    method: "POST",
    headers: { "idempotency-key": key, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (response.ok) return ((await response.json()) as Required<GatewayReply>).charge;
  // Unread, it would keep the connection.
  await response.body?.cancel();
  const message = `the gateway answered ${response.status}`;
  const final = response.status >= 400 && response.status < 500 && response.status !== 429;
  throw final ? new PermanentError(message) : new Error(message);
}

/** The gateway, which really would be somewhere on the internet, in a process of its own. */
export class GatewayProcess {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #statistics: GatewayStatistics = { requests: 0, failed: 0, refused: 0, busiestSecond: 0 };

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
    this.#ended = once(child, "exit");
    child.on("message", (news: GatewayNews) => {
      if (typeof news !== "string") this.#statistics = news;
    });
  }

  /** `path` is that of its database. */
  static async start(path: string): Promise<GatewayProcess> {
    const child = fork(join(import.meta.dirname, "gateway-process.ts"), [path]);
    const url = await new Promise<string>((resolve, reject) => {
      child.once("message", (text) => resolve(String(text)));
      child.once("exit", (code) => reject(new Error(`the gateway could not start (code ${code})`)));
    });
    return new GatewayProcess(url, child);
  }

  /** As it has told last. */
  get statistics(): GatewayStatistics {
    return this.#statistics;
  }

  /** Resolves when it has ended. */
  async stop(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#ended;
  }
}
