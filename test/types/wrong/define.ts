/** Programs that must not compile: each line that ends in `// error: TSnnnn` must have that error, and no other line any. */
import { z } from "zod";
import { defineJob } from "../../../engine/job.ts";
import { constant, exponential } from "../../../engine/retry.ts";

const Order = z.object({ id: z.number() });

defineJob(); // error: TS2554
defineJob(5); // error: TS2345
defineJob("a", { que: "x" }); // error: TS2353
defineJob("a", { queue: 5 }); // error: TS2322
defineJob("a", { timeout: true }); // error: TS2322
defineJob("a", { stallTimeout: false }); // error: TS2322
defineJob("a", { backoff: "5s" }); // error: TS2322
defineJob("a", { args: { id: "number" } }); // error: TS2322
defineJob("a", { args: Order, maxAttemps: 5 }); // error: TS2561
defineJob("a", { args: Order, title: ({ name }) => name }); // error: TS2339
defineJob<{ id: number }>("a", { args: Order }); // error: TS2322
defineJob<{ id: number }>("a", { title: ({ name }) => name }); // error: TS2339

const order = defineJob("order", { args: Order });
order.options.queue = "other"; // error: TS2540
order.spec({ id: "7" }); // error: TS2322
order.spec({}); // error: TS2741
order.spec({ id: 7 }, { dely: 5 }); // error: TS2561

exponential("2s"); // error: TS2554
constant({ seconds: 5 }); // error: TS2345
