/** All that `import … from "kiln/testing"` gives: time for tests that passes only when the test says so. */
export { VirtualRuntime, type VirtualRuntimeOptions, VirtualTime } from "./virtual-time.ts";
