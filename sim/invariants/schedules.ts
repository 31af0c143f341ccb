/** When simple schedules fire, worked out without the engine: those that are the same all through the day, in any time zone of whole hours. */

export interface Slots {
  /** Milliseconds from one to the next. */
  readonly step: number;
  /** One of them, milliseconds since 1970. */
  readonly anchor: number;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Null for schedules that are not simple. `first` is when one that counts from its last run fires first. */
export function slotsOf(cron: string, first: number): Slots | null {
  const every = /^@every (\d+)(ms|s|m|h)$/i.exec(cron);
  if (every !== null) return { step: Number(every[1]) * (UNITS[(every[2] ?? "").toLowerCase()] ?? 0), anchor: first };
  const fields = cron.split(" ");
  const seconds = fields.length === 6;
  const [head = "", ...rest] = fields;
  const part = head === "*" ? 1 : Number(/^\*\/(\d+)$/.exec(head)?.[1] ?? 0);
  if (part === 0 || 60 % part !== 0 || rest.length < 4 || rest.some((field) => field !== "*")) return null;
  return { step: part * (seconds ? 1_000 : 60_000), anchor: 0 };
}

export const isSlot = ({ step, anchor }: Slots, instant: number): boolean => (instant - anchor) % step === 0;

/** The latest that is not after `instant`. */
export const latestSlot = ({ step, anchor }: Slots, instant: number): number =>
  anchor + Math.floor((instant - anchor) / step) * step;
