import { z } from "zod";
import { defineJob, type Handler, type HandlerInterceptor } from "../../../engine/job.ts";
import { defaultBackoff } from "../../../engine/retry.ts";

const order = defineJob("order", { args: z.object({ id: z.number(), at: z.coerce.date<string>() }) });
const report = defineJob<{ from: Date; big: bigint }, { bytes: number }>("report");

order.handler(); // error: TS2554
order.handler("order"); // error: TS2345
order.handler((job) => job.args.name); // error: TS2339
order.handler((job) => job.args.at.length); // error: TS2339
order.handler((job) => job.id.length); // error: TS2339
order.handler((job) => (job.attempt = 5)); // error: TS2540
order.handler((_, context) => context.abort); // error: TS2339
order.handler(async (job) => job.setParam("row")); // error: TS2554
order.handler(async (job) => job.setParam(5, "row")); // error: TS2345
order.handler((job) => job.log(5)); // error: TS2345
order.handler((job) => job.progress("5")); // error: TS2345

report.handler(({ args }) => ({ bytes: args.from.getTime() })); // error: TS2339
report.handler(({ args }) => ({ bytes: args.big.toString().length })); // error: TS2339
report.handler(() => ({ bytes: "5" })); // error: TS2322
report.handler(async () => ({ bytes: "5" })); // error: TS2322
report.handler(async () => {}); // error: TS2345

export const handlers: Handler[] = [
  order, // error: TS2739
  async () => {}, // error: TS2322
];
export const around: HandlerInterceptor = (job, _context, next) => next(job); // error: TS2554
defaultBackoff(1, null); // error: TS2554
