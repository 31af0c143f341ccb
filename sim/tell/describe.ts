/** What has happened, in words: one short line for each event. */
import type { Change, Snapshot } from "../cluster/audit.ts";
import type { HistoryEvent } from "../run/history.ts";
import type { Micros } from "../world/world.ts";

/** Seconds with three digits. */
export function secondsOf(at: Micros): string {
  return (at / 1e6).toFixed(3);
}

/** The lane that an event belongs to: a process, or the database. */
export function laneOf(event: HistoryEvent): string {
  if (event.type === "commit" || event.type === "healed") return "database";
  if (event.type === "fault") return event.target;
  return processOf(event.incarnation);
}

/** `n0` of `n0.2`. */
export function processOf(incarnation: string): string {
  return incarnation.slice(0, incarnation.indexOf("."));
}

export function describe(event: HistoryEvent): string {
  switch (event.type) {
    case "commit": {
      const { call, changes, error } = event;
      const from = `${call.from.name} ${call.op}`;
      if (error !== undefined) return `${from}: ${error instanceof Error ? error.name : "refused"}`;
      return [from, ...changes.map(describeChange)].join("; ");
    }
    case "fault":
      return `FAULT ${event.what}`;
    case "up":
      return `${event.incarnation} up`;
    case "down":
      return `${event.incarnation} ${event.how}`;
    case "paused":
      return `${event.incarnation} stands still`;
    case "resumed":
      return `${event.incarnation} goes on`;
    case "healed":
      return "all that is not broken for ever is healed";
    case "send":
      return `sends ${event.call.id}`;
    case "told":
      return `is told of ${event.event.type}`;
    case "reply":
      return `${event.ok ? "answer" : "error"} ${event.call.id}`;
    case "start":
      return `▶ job ${event.job} claim ${event.claim} attempt ${event.attempt}`;
    case "abort":
      return `⏻ job ${event.job} claim ${event.claim} ${event.reason}`;
    case "end":
      return `■ job ${event.job} claim ${event.claim} ${event.how}`;
    case "note":
      return event.text;
  }
}

/** For example `job 7 available → running claim 2 attempt 1`. */
export function describeChange({ id, before, after }: Change): string {
  if (after === null) return `job ${id} removed`;
  if (before === null) return `job ${id} added ${after.state}`;
  const moved = before.state === after.state ? after.state : `${before.state} → ${after.state}`;
  const said = (["claim", "attempt"] as const).filter((name) => before[name] !== after[name]);
  return [`job ${id} ${moved}`, ...said.map((name) => `${name} ${after[name]}`)].join(" ");
}

/** All of a change, to compare it with others; null when nothing has changed of what is looked at. */
export function describeFully({ id, before, after }: Change): string | null {
  if (after === null) return `job ${id} removed`;
  const names = Object.keys(after) as (keyof Snapshot)[];
  const changed = names.filter((name) => before === null || before[name] !== after[name]);
  if (changed.length === 0) return null;
  return [`job ${id}`, before === null ? "added" : "changed", ...changed.map((name) => `${name}=${after[name]}`)].join(
    " ",
  );
}
