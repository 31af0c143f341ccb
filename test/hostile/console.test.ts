/** Lines and progress that handlers report × every hostile value × every store: a job never suffers from its log. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineJob } from "../../engine/job.ts";
import { assertNotStuck, runAll, STORES, serverOn } from "./support.ts";
import { VALUES } from "./values.ts";

const BYTES = 4_096;
const talk = defineJob<{ index: number }>("talk");
/** What a line is shown as: texts nearly as they are, everything else in short. */
const clean = (text: string): string => text.toWellFormed().replaceAll("\u0000", "").slice(0, BYTES);

for (const [store, open] of Object.entries(STORES)) {
  test(`${store}: whatever is logged is a line that can be shown`, async () => {
    const handler = talk.handler((job) => {
      job.log(VALUES[job.args.index]?.make(BYTES) as string);
      job.log("last");
    });
    const server = await serverOn(open, [handler]);
    const jobs = await server.client.enqueueMany(VALUES.map((_, index) => talk.spec({ index })));
    await runAll(server);
    for (const [index, { id }] of jobs.entries()) {
      const { name, make } = VALUES[index] ?? assert.fail();
      assert.equal((await server.client.get(id))?.state, "succeeded", name);
      const texts = (await server.client.console(id)).map(({ text }) => text);
      const [line = "", last] = texts;
      assert.deepEqual([texts.length, last], [2, "last"], name);
      const value = make(BYTES);
      if (typeof value === "string") assert.equal(line, clean(value), name);
      else assert.ok(line !== "" && Buffer.byteLength(line) <= 100 && line === clean(line), `${name}: ${line}`);
    }
    await assertNotStuck(
      server,
      jobs.map(({ id }) => id),
    );
    await server.store.close();
  });

  test(`${store}: whatever is reported as progress is a percentage or is ignored`, async () => {
    const handler = talk.handler((job) => {
      job.progress(VALUES[job.args.index]?.make(BYTES) as number);
    });
    const server = await serverOn(open, [handler]);
    const jobs = await server.client.enqueueMany(VALUES.map((_, index) => talk.spec({ index })));
    await runAll(server);
    for (const [index, { id }] of jobs.entries()) {
      const { name, make } = VALUES[index] ?? assert.fail();
      const { state, progress } = (await server.client.get(id)) ?? assert.fail();
      const value = make(BYTES);
      const percent = typeof value === "number" && !Number.isNaN(value) ? Math.min(Math.max(value, 0), 100) : null;
      assert.deepEqual([state, progress], ["succeeded", percent], name);
    }
    await assertNotStuck(
      server,
      jobs.map(({ id }) => id),
    );
    await server.store.close();
  });
}
