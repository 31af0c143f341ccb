/**
 * Whatever is asked of a store, it answers and ends as the model in `model.ts` does. `RUNS` says how many scenarios each
 * store gets (default 150): `RUNS=5000 npm test -- --timeout=1800 test/stores/model.test.ts`. A failure names `seed`, `path`
 * and, at the end of its commands, `replayPath`; `REPLAY='{"seed":1,"path":"2:3","replayPath":"AA:B"}'` runs just that.
 */
import { test } from "node:test";
import fc from "fast-check";
import type { Store } from "../../engine/store.ts";
import { MemoryStore } from "../../engine/stores/memory/index.ts";
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { VirtualTime } from "../../engine/testing/virtual-time.ts";
import { newWorld } from "./model.ts";
import { compareViews } from "./model-command.ts";
import { COMMANDS, serverInfo } from "./model-commands.ts";
import { register } from "./model-operators.ts";

const STORES: Readonly<Record<string, (time: VirtualTime) => Promise<Store>>> = {
  memory: (time) => MemoryStore.open({ runtime: time.runtime() }),
  SQLite: (time) => SqliteStore.open({ path: ":memory:", runtime: time.runtime() }),
};

const RUNS = Number(process.env["RUNS"] ?? 150);
const { replayPath, ...replayed }: { seed?: number; path?: string; replayPath?: string } = JSON.parse(
  process.env["REPLAY"] ?? "{}",
);

for (const [name, open] of Object.entries(STORES)) {
  test(`${name}: every call is answered as the model says`, async () => {
    // At most 31 s each, so that no run lasts an hour: then keys of limits would be forgotten.
    const commands = fc.commands(COMMANDS, { maxCommands: 110, size: "max", ...(replayPath && { replayPath }) });
    await fc.assert(
      fc.asyncProperty(commands, async (scenario) => {
        const time = new VirtualTime();
        const store = await open(time);
        try {
          const world = newWorld(time.now);
          for (const info of ["s1", "s2"].map(serverInfo)) {
            register(world, info);
            await store.register(info);
          }
          await fc.asyncModelRun(() => ({ model: world, real: { store, time } }), scenario);
          await compareViews(world, store);
        } finally {
          await store.close();
        }
      }),
      { numRuns: RUNS, ...replayed },
    );
  });
}
