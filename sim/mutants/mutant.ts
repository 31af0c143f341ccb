/** A fault that is put into the source on purpose, to see that the simulator finds it. */
import type { StoreKind } from "../cluster/database.ts";
import type { ProfileName } from "../generate/profiles.ts";
import type { Scenario } from "../scenario/scenario.ts";
import type { SelfCheck } from "./self-checks.ts";

export interface Mutant {
  /** For example `finish-any-claim`. */
  readonly id: string;
  /** Of the list in docs/simulator-mutants.md; several may share one. */
  readonly number: number;
  /** What is wrong, in one sentence. */
  readonly what: string;
  /** From the root of the repository. */
  readonly file: string;
  /** Stands exactly once in the file. */
  readonly find: string;
  readonly replace: string;
  /** That it is part of; default: by the file. */
  readonly stores?: readonly StoreKind[];
  /** Those that may catch it, as `Failure.invariant` has them. */
  readonly invariants: readonly string[];
  /** Profile of the random scenarios that find it, or why none looks for it. */
  readonly random: ProfileName | { readonly not: string };
  /** Kills it by itself, and passes without it. Of a mutant of the simulator, what the simulator must keep to. */
  readonly directed: Scenario | SelfCheck;
}

const BOTH: readonly StoreKind[] = ["memory", "sqlite"];

/** Stores that the mutant is part of. */
export function storesOf({ file, stores }: Pick<Mutant, "file" | "stores">): readonly StoreKind[] {
  if (stores !== undefined) return stores;
  const only = BOTH.filter((store) => file.startsWith(`engine/stores/${store}/`));
  return only.length > 0 ? only : BOTH;
}

/** The source with the fault in it. @throws Error when the place is not there, or not the only one */
export function mutate(
  { id, file, find, replace }: Pick<Mutant, "id" | "file" | "find" | "replace">,
  source: string,
): string {
  const parts = source.split(find);
  if (parts.length === 2) return parts.join(replace);
  const found = parts.length - 1;
  throw new Error(`mutant ${id}: what it replaces stands ${found} times in ${file}, not once:\n${find}`);
}
