/** Invariants of limits, unique jobs, dependencies and recurring jobs. */
import type { Checker } from "../history.ts";
import type { Scenario } from "../scenario.ts";
import { Claims } from "./admission.ts";
import { KeyConcurrency, ServerConcurrency } from "./concurrency.ts";
import { AdmissionWindows, StartSlack, StartWindows } from "./rates.ts";

export function kindCheckers({ config }: Scenario): readonly Checker[] {
  return [
    ...[new AdmissionWindows(), new StartWindows(), new StartSlack(), new Claims()],
    ...[new KeyConcurrency(), new ServerConcurrency(config)],
  ];
}
