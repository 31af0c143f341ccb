/** `npm run sim -- VERB …`: the simulator's command line as a process. */
import { cli } from "./cli.ts";
import type { Io } from "./verbs/verb.ts";

const io: Io = {
  terminal: process.stdout.isTTY === true,
  say(line) {
    if (this.terminal) process.stdout.write("\r\u001b[K");
    process.stdout.write(`${line}\n`);
  },
  complain(text) {
    process.stderr.write(`${text}\n`);
  },
  show(line) {
    if (this.terminal) process.stdout.write(`\r\u001b[K${line.slice(0, process.stdout.columns - 1)}`);
  },
};

// Whoever reads it has seen enough, as `head` has.
process.stdout.on("error", () => process.exit());
process.exitCode = await cli(process.argv.slice(2), io);
