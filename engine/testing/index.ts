/** All that `import … from "kiln/testing"` gives: what tests of handlers, and of code that enqueues, are made of. */
export { assertEnqueued, assertNotEnqueued, type EnqueuedJob, type JobMatch } from "./assert-enqueued.ts";
export { type JobResult, type RunJobOptions, runJob } from "./run-job.ts";
export { type DrainedJob, type DrainOptions, TestServer, type TestServerOptions } from "./test-server.ts";
export { VirtualRuntime, type VirtualRuntimeOptions, VirtualTime, type VirtualTimeOptions } from "./virtual-time.ts";
export type { AttemptRun } from "./watched-store.ts";
