import type { Checker } from "./history.ts";
export const allCheckers = (): readonly Checker[] => [];
