/** Another way to find when a schedule fires: minute by minute, asking Intl what the clock on the wall says. */

export interface WallClock {
  readonly minute: number;
  readonly hour: number;
  readonly day: number;
  /** 1 to 12. */
  readonly month: number;
  /** 0 = Sunday. */
  readonly weekday: number;
  /** Days of the month. */
  readonly days: number;
}

export interface Spec {
  readonly cron: string;
  /** The hours are fixed: nothing is skipped or repeated where the clock is changed. */
  readonly fixed: boolean;
  readonly fits: (clock: WallClock) => boolean;
}

const MINUTE = 60_000;

/** What the clock on the wall says, as if it were UTC. */
export function wallClock(timeZone: string): (instant: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    ...{ timeZone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric" },
    ...{ hour: "numeric", minute: "numeric", second: "numeric" },
  });
  return (instant) => {
    const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second);
  };
}

export function fieldsOf(local: number): WallClock {
  const date = new Date(local);
  const days = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  return {
    ...{ minute: date.getUTCMinutes(), hour: date.getUTCHours(), day: date.getUTCDate(), days },
    ...{ month: date.getUTCMonth() + 1, weekday: date.getUTCDay() },
  };
}

/** The clock on the wall at each minute of `[from, to]`. */
export function minutes(timeZone: string, from: number, to: number): { instant: number; local: number }[] {
  const clock = wallClock(timeZone);
  const all: { instant: number; local: number }[] = [];
  for (let instant = from; instant <= to; instant += MINUTE) all.push({ instant, local: clock(instant) });
  return all;
}

/** All instants of the minutes, but for the first, at which the spec fires. */
export function firings(spec: Spec, walk: readonly { instant: number; local: number }[]): number[] {
  const fired: number[] = [];
  let latest = walk[0]?.local ?? 0;
  for (const { instant, local } of walk.slice(1)) {
    if (spec.fixed ? anyFits(spec, latest, local) : spec.fits(fieldsOf(local))) fired.push(instant);
    latest = Math.max(latest, local);
  }
  return fired;
}

/** One of the minutes after `latest`, up to `local`, fits: more than one where the clock was put forward, none where back. */
function anyFits(spec: Spec, latest: number, local: number): boolean {
  for (let minute = latest + MINUTE; minute <= local; minute += MINUTE) {
    if (spec.fits(fieldsOf(minute))) return true;
  }
  return false;
}
