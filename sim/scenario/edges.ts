/** Durations at which something may tip over: those of the configuration, a little less and a little more. */
import type { SimConfig } from "./scenario.ts";

const STEP = 1_000;

/** Milliseconds without a heartbeat after which a server stops what it runs. */
export function fenceAfter({ deadAfter, heartbeatInterval, killGrace }: SimConfig): number {
  return deadAfter - heartbeatInterval - killGrace;
}

/** Milliseconds, ascending, from 0 to twice `deadAfter`. */
export function edgesOf(config: SimConfig): readonly number[] {
  const { heartbeatInterval, leaderTtl, deadAfter, shutdownTimeout, killGrace, pollInterval } = config;
  const around = [heartbeatInterval, leaderTtl, fenceAfter(config), deadAfter, shutdownTimeout, killGrace];
  const edges = [0, STEP, pollInterval, 2 * heartbeatInterval, deadAfter + heartbeatInterval, 2 * deadAfter];
  for (const edge of around) edges.push(edge - STEP, edge, edge + STEP);
  return [...new Set(edges.filter((edge) => edge >= 0 && edge <= 2 * deadAfter))].sort((a, b) => a - b);
}
