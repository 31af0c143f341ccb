/** Random faults. What is drawn are plain numbers; what they mean follows from the scenario that they are put into. */
import fc from "fast-check";
import { CLIENT_OPS } from "../scenario/ops.ts";
import type { Fault, FaultType, NthCall, Target } from "../scenario/scenario.ts";
import { FAULT_TYPES } from "./profiles.ts";

/** Steps of clocks, milliseconds. */
const CLOCK_STEPS = [-3_600_000, -60_000, -5_000, -1_000, -1, 1, 1_000, 5_000, 30_000, 60_000, 3_600_000] as const;
const PROBABILITIES = [0.05, 0.2, 0.5, 1] as const;
const WAYS = ["both", "requests", "replies"] as const;
const MOST_NTH = 20;
const HIGHEST = 2 ** 20;

const number = fc.nat(HIGHEST);

export const rawFault = fc.record({
  type: number,
  target: number,
  at: number,
  length: number,
  op: number,
  nth: fc.oneof(fc.constant(0), fc.nat(MOST_NTH)),
  amount: number,
  /** One in eight hits the application. */
  client: fc.nat(7),
  /** One in six is for ever. */
  forEver: fc.nat(5),
});
export type RawFault = typeof rawFault extends fc.Arbitrary<infer Value> ? Value : never;

export interface FaultContext {
  readonly weights: Readonly<Partial<Record<FaultType, number>>>;
  readonly servers: number;
  /** Milliseconds. */
  readonly duration: number;
  readonly edges: readonly number[];
  /** Calls of servers. */
  readonly calls: readonly string[];
}

/** One of them, whichever the number says. */
export function pick<Value>(values: readonly Value[], raw: number): Value {
  return values[raw % values.length] as Value;
}

/** A whole second before the end. */
export function instant(raw: number, duration: number): number {
  return (raw % Math.floor(duration / 1_000)) * 1_000;
}

export function faultOf(raw: RawFault, context: FaultContext): Fault {
  const { edges, servers, duration } = context;
  const type = typeOf(raw.type, context.weights);
  const at = instant(raw.at, duration);
  const lasts = Math.max(pick(edges, raw.length), 1_000);
  const server = raw.target % servers;
  const target: Target = raw.client === 0 ? "client" : server;
  const by = pick(CLOCK_STEPS, raw.amount);
  const restartAfter = raw.forEver === 0 ? null : pick(edges, raw.amount);
  switch (type) {
    case "crash":
      // An application that never comes back enqueues nothing.
      return { type, target, at, restartAfter: target === "client" ? pick(edges, raw.amount) : restartAfter };
    case "shutdown":
      return { type, target: server, at, restartAfter };
    case "pause":
      return { type, target, at, for: lasts };
    case "partition":
      return { type, target, at, for: lasts, ways: pick(WAYS, raw.amount) };
    case "loseRequest":
    case "loseReply":
    case "errorBefore":
    case "errorAfter":
    case "limitOne":
      return { type, ...callOf(raw, target, at, context) };
    case "delayRequest":
    case "delayReply":
    case "slowCommit":
      return { type, ...callOf(raw, target, at, context), for: lasts };
    case "errors":
      return { type, at, for: lasts, probability: pick(PROBABILITIES, raw.amount) };
    case "databaseDown":
    case "databaseStall":
    case "loseEvents":
    case "doubleEvents":
      return { type, at, for: lasts };
    case "databaseClock":
      return { type, at, by };
    case "wallClock":
      return { type, target, at, by };
    case "lateEvents":
      return { type, at, for: lasts, by: pick(edges, raw.amount) };
  }
}

function typeOf(raw: number, weights: FaultContext["weights"]): FaultType {
  const sum = FAULT_TYPES.reduce((total, type) => total + (weights[type] ?? 0), 0);
  let left = raw % sum;
  for (const type of FAULT_TYPES) {
    left -= weights[type] ?? 0;
    if (left < 0) return type;
  }
  throw new Error("no fault has a weight");
}

function callOf(raw: RawFault, target: Target, at: number, { calls }: FaultContext): NthCall {
  return { target, at, nth: raw.nth, op: pick<string>(target === "client" ? CLIENT_OPS : calls, raw.op) };
}
