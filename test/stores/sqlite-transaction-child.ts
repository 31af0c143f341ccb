/** A process that opens a transaction on the file it is given, writes, and never ends it. */
import { SqliteStore } from "../../engine/stores/sqlite/index.ts";
import { newJob, newJobs } from "../conformance/support.ts";

const [, , path = ""] = process.argv;
const store = await SqliteStore.open({ path });
process.on("disconnect", () => process.exit());
await store.transaction(async (tx) => {
  tx.db.exec("CREATE TABLE orders (id); INSERT INTO orders VALUES (1)");
  await tx.insert(newJobs(999));
  await tx.insert([newJob({ unique: { key: "a".repeat(32), window: null, onConflict: "keep" } })]);
  process.send?.({ jobs: tx.db.prepare("SELECT count(*) AS n FROM kiln_jobs").get()?.["n"] });
  await new Promise(() => {});
});
