/**
 * S6: nobody's jobs are taken too soon. A server counts as dead when it has been silent for longer than its promise, which
 * is `deadAfter + heartbeatInterval`: counted from its last beat that is `deadAfter` after the latest moment at which it can
 * have died. A new leader gives all others as long to be heard.
 */
import type { JobId, LeadReply, Orphan, ServerInfo } from "../../engine/store.ts";
import { type Checker, type Commit, type HistoryEvent, Violation } from "../run/history.ts";
import type { Scenario, SimConfig } from "../scenario/scenario.ts";
import type { Micros } from "../world/world.ts";
import { finished, type Reply, type Send } from "./calls.ts";
import { CLOCK_ERROR, isRescue, MS } from "./timing.ts";
import type { ServerState, View } from "./view.ts";

export class Rescue implements Checker {
  readonly name = "S6 rescue";
  readonly #view: View;
  readonly #config: SimConfig;
  /** Of those that believe that they lead: since when, and until when at most by the last renewal that they know of. */
  readonly #terms = new Map<string, { readonly since: Micros; until: Micros }>();

  constructor(view: View, { config }: Scenario) {
    this.#view = view;
    this.#config = config;
  }

  get #promise(): number {
    return this.#config.deadAfter + this.#config.heartbeatInterval;
  }

  see(event: HistoryEvent): void {
    if (event.type === "reply" && event.ok && event.call.op === "lead") this.#told(event);
    else if (event.type === "send" && event.call.op === "orphans") this.#looks(event);
    if (event.type !== "commit" || event.error !== undefined) return;
    const { op } = event.call;
    if (op === "register") {
      const { deadAfter } = event.args[0] as ServerInfo;
      if (deadAfter !== this.#promise) throw broken(`a server promises ${deadAfter} ms`);
    } else if (op === "orphans") this.#orphans(event);
    else if (op === "finish") this.#rescued(event);
  }

  /** It knows that it leads from here on, or once more after its lease had run out by its own clock. */
  #told({ at, incarnation, call, result }: Reply): void {
    const { leaderTtl } = this.#config;
    // Later than this the server has given the call up.
    if (at - call.sentAt > (leaderTtl / 3) * (1 + CLOCK_ERROR) * MS) return;
    const term = this.#terms.get(incarnation);
    const until = call.sentAt + leaderTtl * MS;
    if (!(result as LeadReply).held) this.#terms.delete(incarnation);
    else if (term === undefined || call.sentAt > term.until) {
      this.#terms.set(incarnation, { since: at, until });
    } else term.until = Math.max(term.until, until);
  }

  #looks({ at, incarnation }: Send): void {
    const term = this.#terms.get(incarnation);
    if (term === undefined) throw broken("a server that does not lead looks for orphans");
    const over = (at - term.until) / MS;
    if (over > this.#config.leaderTtl * CLOCK_ERROR)
      throw broken(`a leader looks for orphans ${over} ms after its lease`);
    const waited = (at - term.since) / MS;
    if (waited < this.#promise * (1 - CLOCK_ERROR)) throw broken(`a new leader looks for orphans after ${waited} ms`);
  }

  #orphans(commit: Commit): void {
    const orphans = commit.result as readonly Orphan[];
    const { rows, servers } = this.#view;
    for (const { id, claim, server } of orphans) {
      const row = rows.get(id);
      if (row?.state !== "processing" || row.claim !== claim || row.server !== server) {
        throw broken("a job is called an orphan that its server does not hold", id);
      }
      if (!this.#isGone(server, commit.clock)) throw broken("a job of a living server is called an orphan", id);
    }
    for (const server of servers.values()) {
      if (!server.dead && this.#isGone(server.id, commit.clock)) this.#checkWarranted(server, commit.at);
    }
    if (orphans.length < (commit.args[0] as number)) this.#checkComplete(orphans, commit.clock);
  }

  /** Forgotten, declared dead before, or silent for longer than it has promised. */
  #isGone(id: string, clock: number): boolean {
    const server = this.#view.servers.get(id);
    return server === undefined || server.dead || clock - server.beatClock > server.deadAfter;
  }

  /**
   * One that runs and whose calls get through has been heard: it beats every `heartbeatInterval`, and gives a beat up that
   * was not answered in that time. Time is the store's: when its clock was set forward, silence may be shorter than it says.
   */
  #checkWarranted({ id, incarnation, beatAt }: ServerState, at: Micros): void {
    const process = this.#view.processOfServer(id, incarnation);
    if (process === null || process.paused || this.#view.calm.clockStepped >= beatAt) return;
    const calm = (at - this.#view.calmSince(process)) / MS;
    const { heartbeatInterval, latency } = this.#config;
    if (calm > (heartbeatInterval + 2 * latency) * (1 + CLOCK_ERROR) + 1) {
      throw broken(`a server is declared dead that has been up and connected for ${calm} ms`);
    }
  }

  #checkComplete(orphans: readonly Orphan[], clock: number): void {
    let held = 0;
    for (const [server, jobs] of this.#view.held) {
      if (jobs.size > 0 && this.#isGone(server, clock)) held += jobs.size;
    }
    if (orphans.length !== held) throw broken(`${orphans.length} of ${held} orphans are found`);
  }

  #rescued(commit: Commit): void {
    for (const { outcome, result } of finished(commit)) {
      if (result.status !== "applied" || !isRescue(outcome)) continue;
      const server = this.#view.rows.get(outcome.id)?.server;
      if (server != null && this.#view.isLiving(server))
        throw broken("a job is rescued from a living server", outcome.id);
    }
  }
}

const broken = (message: string, id: JobId | null = null): Violation => new Violation("S6", message, id);
