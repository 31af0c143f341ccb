/**
 * The promises of the documents, each as a checker that watches a run. `docs/simulator.md` lists them by number.
 */
import type { Checker } from "../run/history.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { AttemptCount } from "./attempts.ts";
import { RescueBackoff } from "./backoff.ts";
import { Cancel } from "./cancel.ts";
import { Choice } from "./choice.ts";
import { Claims } from "./claims.ts";
import { Conservation, Maintenance } from "./conservation.ts";
import { Fencing } from "./fencing.ts";
import { kindCheckers } from "./kinds.ts";
import { LeaderStays, Lease } from "./leadership.ts";
import { Overlap } from "./overlap.ts";
import { Polling } from "./polling.ts";
import { Rescue } from "./rescue.ts";
import { RescueTime } from "./rescue-time.ts";
import { Results } from "./results.ts";
import { Shutdown } from "./shutdown.ts";
import { Transitions } from "./transitions.ts";
import { View } from "./view.ts";

/** All of them, made anew for one run. */
export function allCheckers(scenario: Scenario): readonly Checker[] {
  const view = new View(scenario);
  return [
    ...protocolCheckers(view, scenario),
    ...kindCheckers(scenario),
    new Choice(),
    new Cancel(view, scenario),
    // Last: all others see the world as it was before the event.
    view,
  ];
}

/** Of claims, results, servers and leaders. */
export function protocolCheckers(view: View, scenario: Scenario): readonly Checker[] {
  return [
    new Transitions(),
    new Claims(view),
    new Results(view),
    new Overlap(view, scenario),
    new Fencing(scenario),
    new Rescue(view, scenario),
    new AttemptCount(),
    new RescueBackoff(),
    new Conservation(scenario),
    new Lease(view, scenario),
    new Maintenance(),
    new Shutdown(view, scenario),
    new RescueTime(view, scenario),
    new LeaderStays(view, scenario),
    new Polling(view, scenario),
  ];
}
