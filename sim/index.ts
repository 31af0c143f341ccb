/** `kiln/sim`: the real engine in a virtual world, for users' own handlers. */

export type { Scenario } from "./scenario/scenario.ts";
export { FAULT_NAMES, type FaultName } from "./user/draw.ts";
export {
  type SimulationConfig,
  SimulationError,
  type SimulationOptions,
  type SimulationReport,
  simulate,
} from "./user/simulate.ts";
export type { SimContext, WorkloadContext } from "./user/user-program.ts";
