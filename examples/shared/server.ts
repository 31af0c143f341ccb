/** What the servers of all examples have in common. */
import type { ServerConfig } from "kiln";

/** `onProblem` is told what the server could not do. */
export function serverConfig(onProblem: (text: string) => void) {
  return {
    // Shorter than the defaults, so that the jobs of a process that was killed are run again after about 7 seconds instead
    // of a minute. deadAfter must exceed 3 × heartbeatInterval + killGrace + 5s.
    heartbeatInterval: "250ms",
    killGrace: "500ms",
    deadAfter: "6.5s",
    leaderTtl: "1s",
    shutdownTimeout: "1s",
    // The final check counts every job.
    retention: { succeeded: false, deleted: false },
    logger: {
      debug: () => {},
      info: () => {},
      warn: (message, fields) => onProblem(describe(message, fields)),
      error: (message, fields) => onProblem(describe(message, fields)),
    },
  } satisfies Partial<ServerConfig>;
}

function describe(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const details = Object.entries(fields).map(([name, value]) => `${name} ${JSON.stringify(value)}`);
  return [message, ...details].join(", ");
}
