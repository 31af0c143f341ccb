/** `kiln/sim`: the real engine in a virtual world, for users' own handlers. */
export { FAULT_NAMES, type FaultName } from "./draw.ts";
export type { Scenario } from "./scenario.ts";
export {
  type SimulationConfig,
  SimulationError,
  type SimulationOptions,
  type SimulationReport,
  simulate,
} from "./simulate.ts";
export type { SimContext, WorkloadContext } from "./user-program.ts";
