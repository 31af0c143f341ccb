import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { appendHistory, decodeHistory, encodeHistory, historyEntry } from "../../engine/rules/history.ts";
import { HISTORY_MAX_ENTRIES } from "../../engine/rules/limits.ts";
import { cleanText } from "../../engine/rules/text.ts";
import { JOB_STATES } from "../../engine/store.ts";

const text = fc.string({ unit: "binary", maxLength: 40 });
const longText = fc.tuple(text, fc.integer({ min: 1, max: 2_000 })).map(([part, times]) => part.repeat(times));
const optional = fc.option(longText, { nil: null });
const instant = fc.integer({ min: 0, max: 253_402_300_799_999 });

const entry = fc
  .record({
    why: fc.record({ reason: longText, error: optional, trace: optional }),
    state: fc.constantFrom(...JOB_STATES),
    attempt: fc.nat(40_000),
    server: fc.option(fc.string({ minLength: 1 }), { nil: null }),
    now: instant,
  })
  .map(({ why, state, attempt, server, now }) => ({ why, entry: historyEntry(why, state, attempt, server, now), now }));

test("an entry's texts are clean, within their sizes and prefixes of what was given", () => {
  fc.assert(
    fc.property(entry, ({ why, entry: { reason, error, trace, at }, now }) => {
      const checks: [string | null, string | null, number][] = [
        [why.reason, reason, 256],
        [why.error, error, 2_048],
        [why.trace, trace, 8_192],
      ];
      for (const [given, kept, bytes] of checks) {
        assert.equal(kept === null, given === null);
        if (given === null || kept === null) continue;
        assert.ok(Buffer.byteLength(kept) <= bytes);
        assert.ok(cleanText(given).startsWith(kept));
      }
      assert.equal(at.getTime(), now);
    }),
  );
});

test("a history is what was appended last, at most 16", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 60 }), (entries) => {
      let history: number[] = [];
      for (const each of entries) {
        const before = [...history];
        const after = appendHistory(history, each);
        assert.deepEqual(history, before, "the one before is left alone");
        history = after;
      }
      assert.deepEqual(history, entries.slice(-HISTORY_MAX_ENTRIES));
    }),
  );
});

test("a longer history, from an older version with a larger limit, is cut as well", () => {
  const long = Array.from({ length: 100 }, (_, n) => n);
  assert.deepEqual(appendHistory(long, 100), [...long.slice(-15), 100]);
});

test("decoding gives back what was encoded, as text that any database can store", () => {
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 16 }), (entries) => {
      const history = entries.map((each) => each.entry);
      const encoded = encodeHistory(history);
      assert.deepEqual(decodeHistory(encoded), history);
      assert.ok(encoded.isWellFormed() && !encoded.includes("\u0000"));
    }),
  );
});

test("a full history of the longest entries keeps to a size", () => {
  const long = "\u0001".repeat(10_000);
  const why = { reason: long, error: long, trace: long };
  const history = Array.from({ length: 16 }, () => historyEntry(why, "scheduled", 32_767, "server", Date.now()));
  // Six bytes for each control character is the worst that JSON does.
  assert.ok(Buffer.byteLength(encodeHistory(history)) < 16 * (6 * (256 + 2_048 + 8_192) + 200));
});
