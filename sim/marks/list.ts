/** Rare things that a search must have reached before "nothing was found" means anything. */

/** Calls whose replies must have been lost after they were committed. */
export const LOST_REPLIES = [
  ...[
    "insert",
    "claim",
    "finish",
    "setParams",
    "writeConsole",
    "register",
    "heartbeat",
    "unregister",
    "lead",
    "resign",
  ],
  ...["orphans", "sweep", "prune", "putRecurring", "dueRecurring", "fireRecurring"],
] as const;

/** What the engine itself tells of, by `runtime.mark`. */
const BY_ENGINE = {
  "became leader": "a server was elected",
  "fenced with running jobs": "a server that could not reach the store aborted its handlers",
  "fence lifted": "it reached the store again before others declared it dead",
  "declared dead": "a server heard that others had declared it dead",
  "lost job handed back": "a claim whose reply had been lost, or a job that a fence had ended, was handed back",
  "claim answered after its deadline": "a claim's reply came when nobody waited for it any more",
} as const;

/** What the history shows. */
const BY_HISTORY = {
  "late result rejected": "a result came when another claim held the job, or none",
  "job rescued twice": "a job was rescued twice in a row, and waits",
  "leader change while rescuing": "a leader had found orphans, and another leads before it has rescued them",
  "claim of a dead server": "a claim was executed for a server that was no longer known as alive",
  "database stops with calls under way": "calls were refused whose requests had been sent before it stopped",
  "admission denied, then granted": "a throttled job was passed over by a claim and taken by a later one",
  "burst used up": "one claim has taken as many jobs of a key as its burst allows",
  "full key with a waiter": "as many jobs of a key run as may, and one more waits",
  "last parents in one commit": "the last two parents of a job have ended in one commit",
  "occurrence while nobody leads": "a recurring job fired for an instant at which nobody led",
  "unique conflict": "an insert met the holder of its key",
  "shutdown timeout": "a handler was aborted because its server stops",
  "event when all has ended": "a server was told of ready jobs when there were none any more",
  "requeue after prune": "a user requeued a job that had just been removed",
  "result stored by a second try": "a result was stored although the first try had failed",
  "clock steps back while a key is closed": "the database's clock went back while jobs waited for a rate",
  "all servers down": "all servers were down at once, with jobs left",
} as const;

type ByEngine = keyof typeof BY_ENGINE;
type ByHistory = keyof typeof BY_HISTORY;
type ReplyLost = `reply lost: ${(typeof LOST_REPLIES)[number]}`;
export type Mark = ByEngine | ByHistory | ReplyLost;

const replyLost = LOST_REPLIES.map((op): [Mark, string] => [`reply lost: ${op}`, `\`${op}\` was committed, unheard`]);

/** What each means. */
export const MARKS = new Map<Mark, string>([
  ...(Object.entries(BY_ENGINE) as [Mark, string][]),
  ...(Object.entries(BY_HISTORY) as [Mark, string][]),
  ...replyLost,
]);
