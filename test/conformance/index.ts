/**
 * `kiln/conformance`: the promises of the `Store` contract as test cases for `node:test`. For anyone who writes a store:
 *
 *     conformance("my store", async () => {
 *       const time = new VirtualTime(); // of kiln/testing
 *       const store = await MyStore.open({ runtime: time.runtime() });
 *       return { store, advance: (ms) => time.advance(ms), close: () => store.close() };
 *     });
 *
 * A store conforms when every case passes; none is optional. Where a store can write within transactions that the
 * application has begun itself, `begin` has them tested too.
 */
import { describe, test } from "node:test";
import { adminCases } from "./admin.ts";
import { batchesCases } from "./batches.ts";
import { birthsCases } from "./births.ts";
import { cascadesCases } from "./cascades.ts";
import { claimCases } from "./claim.ts";
import { closeCases } from "./close.ts";
import { consoleCases } from "./console.ts";
import { coordinateCases } from "./coordinate.ts";
import { dependenciesCases } from "./dependencies.ts";
import { filtersCases } from "./filters.ts";
import { finishCases } from "./finish.ts";
import { finishInputCases } from "./finish-input.ts";
import { heldCases } from "./held.ts";
import { insertCases } from "./insert.ts";
import { insertInputCases } from "./insert-input.ts";
import { inspectCases } from "./inspect.ts";
import { limitedTiesCases } from "./limited-ties.ts";
import { limitsCases } from "./limits.ts";
import { maintainCases } from "./maintain.ts";
import { nestedBatchesCases } from "./nested-batches.ts";
import { notifyCases } from "./notify.ts";
import { orphansCases } from "./orphans.ts";
import { paramsCases } from "./params.ts";
import { promoteCases } from "./promote.ts";
import { ratesCases } from "./rates.ts";
import { recurringCases } from "./recurring.ts";
import { statisticsCases } from "./statistics.ts";
import type { Group, Harness, OwnTransaction } from "./support.ts";
import { ownTransactionCases, transactionCases } from "./transaction.ts";
import { uniqueCases } from "./unique.ts";

export type { Harness, OwnTransaction } from "./support.ts";

const GROUPS: Readonly<Record<string, Group>> = {
  insert: insertCases,
  "insert input": insertInputCases,
  "insert while held": heldCases(async ({ store }, work) => work(store)),
  claim: claimCases,
  promote: promoteCases,
  finish: finishCases,
  "finish input": finishInputCases,
  params: paramsCases,
  console: consoleCases,
  coordinate: coordinateCases,
  orphans: orphansCases,
  recurring: recurringCases,
  maintain: maintainCases,
  admin: adminCases,
  filters: filtersCases,
  inspect: inspectCases,
  statistics: statisticsCases,
  limits: limitsCases,
  limitedTies: limitedTiesCases,
  rates: ratesCases,
  notify: notifyCases,
  unique: uniqueCases,
  dependencies: dependenciesCases,
  births: birthsCases,
  cascades: cascadesCases,
  batches: batchesCases,
  "nested batches": nestedBatchesCases,
  transaction: transactionCases,
  close: closeCases,
};

/**
 * Registers all cases under `name`. `open` is called once for each case and gives it a new, empty store. `begin`, for stores
 * that can write within a transaction that the application has begun itself, begins one on the harness's store.
 */
export function conformance<H extends Harness>(
  name: string,
  open: () => Promise<H>,
  begin?: (harness: H) => Promise<OwnTransaction>,
): void {
  const own: Readonly<Record<string, Group<H>>> = begin ? { ownTransaction: ownTransactionCases(begin) } : {};
  const groups: Readonly<Record<string, Group<H>>> = { ...GROUPS, ...own };
  describe(name, () => {
    for (const [group, cases] of Object.entries(groups)) {
      describe(group, () => {
        for (const [title, run] of Object.entries(cases)) {
          test(title, async () => {
            const harness = await open();
            try {
              await run(harness);
            } finally {
              await harness.close();
            }
          });
        }
      });
    }
  });
}
