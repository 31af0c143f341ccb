/** What users import, from where they import it. */
export * from "../../engine/index.ts";
export * from "../../engine/stores/memory/index.ts";
export * from "../../engine/stores/sqlite/index.ts";
export * from "../../engine/testing/index.ts";
