/** Invariants of limits, unique jobs, dependencies, batches and recurring jobs. */
import type { Checker } from "../run/history.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { AdmissionFloor } from "./admission.ts";
import { Batches } from "./batches.ts";
import { KeyConcurrency, ServerConcurrency } from "./concurrency.ts";
import { Dependencies } from "./dependencies.ts";
import { AdmissionSpacing, AdmissionWindows, StartSlack, StartWindows } from "./rates.ts";
import { Recurrences } from "./recurring.ts";
import { Sweeps } from "./sweeps.ts";
import { UniqueKeys } from "./unique.ts";

export function kindCheckers(scenario: Scenario): readonly Checker[] {
  return [
    ...[new AdmissionWindows(), new AdmissionSpacing(), new StartWindows(), new StartSlack(), new AdmissionFloor()],
    ...[new KeyConcurrency(), new ServerConcurrency(scenario.config)],
    ...[new UniqueKeys(), new Dependencies(), new Batches(), new Recurrences(scenario), new Sweeps(scenario)],
  ];
}
