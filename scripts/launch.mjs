// Runs a TypeScript program of this repository in this same process, so that signals and the exit code are the program's
// own: `node --conditions=kiln-source scripts/launch.mjs examples/import/main.ts …`. Written in JavaScript that every
// Node since 12 parses, because its reason is to answer a Node that is too old in one line instead of a syntax error.
const file = process.argv[2];

if (!process.features.typescript) {
  console.error(`kiln needs Node >= 22.18, this is Node ${process.versions.node}`);
  process.exitCode = 1;
} else if (file === undefined) {
  console.error("usage: node --conditions=kiln-source scripts/launch.mjs FILE [ARGUMENT...]");
  process.exitCode = 1;
} else {
  process.argv.splice(1, 1);
  void import(new URL(`../${file}`, import.meta.url).href);
}
