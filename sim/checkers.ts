export { allCheckers } from "./invariants/index.ts";
