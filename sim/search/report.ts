/** What the command line says about searches and failures. */
import type { Case } from "../scenario/case.ts";
import type { Found, Statistics } from "./search.ts";

const HOUR = 3_600_000;

export function statisticsLine({ scenarios, failed, faults, events, simulated, took }: Statistics): string {
  const perSecond = took > 0 ? Math.round((events / took) * 1_000) : 0;
  return [
    `${scenarios} scenarios`,
    `${failed} failed`,
    `${faults} faults`,
    `${(simulated / HOUR).toFixed(1)} simulated hours`,
    `${events} events`,
    `${perSecond} events/s`,
  ].join(", ");
}

/** How a scenario got smaller, for example `11 faults → 2, 9 jobs → 1 (97 runs)`. */
export function shrunkText({ drawn, scenario, runs }: Found): string {
  const parts = (["faults", "jobs", "servers"] as const).map(
    (part) => `${drawn[part].length} ${part} → ${scenario[part].length}`,
  );
  return `${parts.join(", ")} (${runs} runs)`;
}

export function fileNameOf({ failure, store, drawn }: Found): string {
  return `fail-${failure.invariant.replaceAll(/\W/g, "-")}-${store}-${drawn.seed}.json`;
}

export function caseOf({ failure, store, scenario }: Found, commit: string | null): Case {
  const what = `${failure.invariant} ${failure.message}`;
  return { what, stores: [store], signature: failure.signature, commit, scenario };
}

/** Of each signature the smallest. */
export function distinct(found: readonly Found[]): readonly Found[] {
  const best = new Map<string, Found>();
  for (const one of found) {
    const key = `${one.store} ${one.failure.signature}`;
    const known = best.get(key);
    if (known === undefined || sizeOf(one) < sizeOf(known)) best.set(key, one);
  }
  return [...best.values()];
}

function sizeOf({ scenario }: Found): number {
  return JSON.stringify(scenario).length;
}
