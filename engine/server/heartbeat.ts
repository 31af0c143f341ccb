/**
 * Says that the server is alive, and learns in return what the store believes that it runs:
 *
 *     starting ──registered──→ alive ⇄ fenced (no beat got through for too long)
 *        ↑                       └──── declared dead by others: starts over under a new id
 *
 * A fenced server claims nothing and aborts its handlers early enough (`fenceAfter`) that those which obey have returned
 * before anyone else may run their jobs. Silence is counted from when a beat was sent, not from when its reply came.
 */
import { Wakeup, withDeadline } from "../async.ts";
import { CancelledError, FencedError } from "../errors.ts";
import type { CancelTimer, Runtime } from "../runtime.ts";
import type { BeatReply, Lease, ServerInfo, Store } from "../store.ts";
import type { Attempt } from "./attempt.ts";
import type { Attempts } from "./attempts.ts";
import type { Faults } from "./faults.ts";

export interface HeartbeatDeps {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly faults: Faults;
  readonly attempts: Attempts;
  /** A fresh description of this server, with a fresh id. */
  readonly describe: () => ServerInfo;
  /** Milliseconds between beats. */
  readonly interval: number;
  /** Milliseconds without a successful beat after which the server fences itself. */
  readonly fenceAfter: number;
  /** Claim calls that have not been answered, by their sequence number. */
  readonly claimsInFlight: ReadonlySet<number>;
  /** The server may claim (again), or a queue was resumed. */
  readonly onReady: () => void;
  /** A job that is claimed by this server but not known here. */
  readonly onLost: (lease: Lease) => void;
  /** A handler was aborted because its job may be run by someone else. */
  readonly onFenced: () => void;
}

const RETRY_FIRST = 100;

export class Heartbeat {
  readonly #deps: HeartbeatDeps;
  readonly #wakeup: Wakeup;
  #info: ServerInfo;
  #registered = false;
  #fenced = false;
  /** When the latest beat that got through was sent, and when the latest was tried; monotonic milliseconds. */
  #lastSent = 0;
  #lastTried = 0;
  #requested = false;
  #beats = 0;
  #paused: readonly string[] = [];
  #cancelFence: CancelTimer = () => {};

  constructor(deps: HeartbeatDeps) {
    this.#deps = deps;
    this.#wakeup = new Wakeup(deps.runtime);
    this.#info = deps.describe();
  }

  get id(): string {
    return this.#info.id;
  }

  /** Beats sent so far. */
  get beats(): number {
    return this.#beats;
  }

  get fenced(): boolean {
    return this.#fenced;
  }

  /** Registered and not fenced. A process that stood still reads this before the timer of its fence has fired. */
  get mayClaim(): boolean {
    return this.#registered && !this.#fenced && !this.#isOverdue();
  }

  /** Milliseconds since the last beat that got through was sent; null before the first. */
  get age(): number | null {
    return this.#registered ? this.#deps.runtime.monotonic() - this.#lastSent : null;
  }

  /** Beats until the signal aborts; registers first. Ends with the server registered or not, as it happens. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#wakeup.wake();
    signal.addEventListener("abort", stop);
    while (!signal.aborted) {
      if (!this.#registered) await this.#register(signal);
      else if (await this.#pause()) await this.#beat();
    }
    signal.removeEventListener("abort", stop);
    this.#cancelFence();
  }

  /** Beats now, or right after the beat that is under way. */
  request(): void {
    this.#requested = true;
    this.#wakeup.wake();
  }

  /** The store does not know this server as alive: its jobs go to others, and it starts over under a new id. */
  declaredDead(): void {
    if (!this.#registered) return;
    this.#deps.runtime.mark("declared dead");
    this.#registered = false;
    this.#cancelFence();
    this.#fence();
    this.#info = this.#deps.describe();
    this.#wakeup.wake();
  }

  async #register(signal: AbortSignal): Promise<void> {
    const { runtime, store, faults, interval } = this.#deps;
    for (let delay = RETRY_FIRST; !signal.aborted; delay = Math.min(delay * 2, interval)) {
      const sent = runtime.monotonic();
      try {
        await withDeadline(runtime, "register", interval, () => store.register(this.#info));
        this.#registered = true;
        this.#alive(sent);
        return this.#deps.onReady();
      } catch (error) {
        faults.report("register", error);
        // An attempt whose reply was lost may have registered this id; the next one must not be refused for it.
        this.#info = this.#deps.describe();
      }
      await this.#wakeup.wait(delay);
    }
  }

  /** Waits for the next beat's time. False = not yet. */
  async #pause(): Promise<boolean> {
    const { runtime, interval } = this.#deps;
    const due = Math.max(this.#lastTried + interval, runtime.monotonic());
    if (!this.#requested) await this.#wakeup.wait(due - runtime.monotonic());
    const go = this.#requested || runtime.monotonic() >= due;
    this.#requested = false;
    return go;
  }

  async #beat(): Promise<void> {
    const { runtime, store, faults, attempts, interval } = this.#deps;
    const { id } = this.#info;
    const sent = runtime.monotonic();
    this.#lastTried = sent;
    this.#beats += 1;
    const beat = this.#beats;
    try {
      const running = attempts.size;
      const reply = await withDeadline(runtime, "heartbeat", interval, () => store.heartbeat({ server: id, running }));
      if (id !== this.#info.id) return;
      if (!reply.known) return this.declaredDead();
      this.#alive(sent);
      this.#reconcile(reply, beat);
    } catch (error) {
      faults.report("heartbeat", error);
    }
  }

  #alive(sent: number): void {
    const { runtime, fenceAfter } = this.#deps;
    this.#lastSent = Math.max(sent, this.#lastSent);
    this.#lastTried = Math.max(sent, this.#lastTried);
    this.#cancelFence();
    const left = this.#lastSent + fenceAfter - runtime.monotonic();
    // A reply that comes too late to prove anything does not lift the fence.
    if (left <= 0) {
      this.#fence();
      return;
    }
    this.#cancelFence = runtime.timer(left, () => this.#fence());
    if (!this.#fenced) return;
    runtime.mark("fence lifted");
    this.#fenced = false;
    this.#deps.onReady();
  }

  #fence(): void {
    const { runtime, attempts } = this.#deps;
    this.#fenced = !runtime.buggify("heartbeat.no-fence");
    const running = [...attempts].filter((attempt) => !attempt.ended).length;
    if (running > 0) runtime.mark("fenced with running jobs");
    for (const attempt of attempts) this.#abort(attempt, "the server can't prove that it still holds this job");
  }

  #isOverdue(): boolean {
    const { runtime, fenceAfter } = this.#deps;
    return runtime.monotonic() > this.#lastSent + fenceAfter && !runtime.buggify("heartbeat.no-fence");
  }

  #abort(attempt: Attempt, why: string): void {
    if (this.#deps.runtime.buggify("heartbeat.no-fence")) return;
    if (attempt.abort(new FencedError(why))) this.#deps.onFenced();
  }

  /** Makes what runs here and what the store says agree. Beat number `beat` read the leases. */
  #reconcile(reply: BeatReply, beat: number): void {
    const { attempts, claimsInFlight, onLost, onReady } = this.#deps;
    const held = new Set<string>();
    for (const lease of reply.leases) {
      const attempt = attempts.get(lease);
      held.add(`${lease.id}:${lease.claim}`);
      if (attempt) {
        if (lease.cancelRequested) attempt.abort(new CancelledError("the job was deleted"));
      } else if (!claimsInFlight.has(lease.sequence)) {
        onLost(lease);
      }
    }
    for (const attempt of attempts) {
      const { id, claim } = attempt.job;
      // Claims that came in after the beat was sent can't be among its leases.
      if (attempt.knownSince >= beat || attempt.ended || held.has(`${id}:${claim}`)) continue;
      this.#abort(attempt, "the job is held by someone else");
    }
    const resumed = this.#paused.some((queue) => !reply.pausedQueues.includes(queue));
    this.#paused = reply.pausedQueues;
    if (resumed) onReady();
  }
}
