import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { Events, type ServerEvent, type TransitionEvent } from "../../engine/server/events.ts";

const transition = (id: number): TransitionEvent => ({
  ...{ type: "transition", id, kind: "task", queue: "default", attempt: 1, from: "enqueued", to: "processing" },
  ...{ reason: null, server: "s1" },
});

const publish = (events: Events, from: number, to: number): void => {
  for (let id = from; id <= to; id++) events.publish(transition(id));
};

/** Short forms: a transition as its id, dropped events as `-count`. */
const short = (event: ServerEvent): number => (event.type === "dropped" ? -event.count : event.id);

async function readAll(from: AsyncIterable<ServerEvent>): Promise<number[]> {
  const read: number[] = [];
  for await (const event of from) read.push(short(event));
  return read;
}

async function next(from: AsyncIterator<ServerEvent>): Promise<number | "end"> {
  const { done, value } = await from.next();
  return done ? "end" : short(value);
}

describe("a subscriber", () => {
  test("gets every event as it was published, in order, then the end", async () => {
    const events = new Events();
    const subscription = events.subscribe(10);
    const event = transition(1);
    events.publish(event);
    assert.equal((await subscription.next()).value, event);
    publish(events, 2, 5);
    events.close();
    assert.deepEqual(await readAll(subscription), [2, 3, 4, 5]);
    assert.equal(await next(subscription), "end");
    assert.equal(await next(subscription), "end");
  });

  test("gets nothing from before it subscribed", async () => {
    const events = new Events();
    publish(events, 1, 3);
    const subscription = events.subscribe(10);
    publish(events, 4, 4);
    events.close();
    assert.deepEqual(await readAll(subscription), [4]);
  });

  test("that waits gets the next event at once, several waiting ones in turn", async () => {
    const events = new Events();
    const subscription = events.subscribe(1);
    const waiting = [next(subscription), next(subscription), next(subscription)];
    publish(events, 1, 5);
    assert.deepEqual(await Promise.all(waiting), [1, 2, 3]);
    assert.deepEqual([await next(subscription), await next(subscription)], [4, -1]);
  });

  test("that waits gets the end when there is nothing more to come", async () => {
    const events = new Events();
    const subscription = events.subscribe(10);
    const waiting = [next(subscription), next(subscription)];
    events.close();
    assert.deepEqual(await Promise.all(waiting), ["end", "end"]);
  });

  test("after the end gets the end at once", async () => {
    const events = new Events();
    events.close();
    events.close();
    const subscription = events.subscribe(10);
    events.publish(transition(1));
    assert.equal(await next(subscription), "end");
  });

  test("is independent of the others", async () => {
    const events = new Events();
    const [slow, quick, large] = [events.subscribe(2), events.subscribe(2), events.subscribe(100)];
    const read: (number | "end")[] = [];
    for (let id = 1; id <= 6; id++) {
      events.publish(transition(id));
      read.push(await next(quick));
    }
    events.close();
    assert.deepEqual(read, [1, 2, 3, 4, 5, 6]);
    assert.deepEqual(await readAll(slow), [1, 2, -4]);
    assert.deepEqual(await readAll(large), [1, 2, 3, 4, 5, 6]);
  });
});

describe("leaving the loop", () => {
  test("unsubscribes: what comes later is neither kept nor counted", async () => {
    const events = new Events();
    const subscription = events.subscribe(2);
    const other = events.subscribe(10);
    publish(events, 1, 2);
    for await (const event of subscription) {
      assert.equal(short(event), 1);
      break;
    }
    publish(events, 3, 9);
    assert.equal(await next(subscription), "end");
    events.close();
    assert.equal(await next(subscription), "end");
    assert.deepEqual(await readAll(other), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test("ends readers that still wait", async () => {
    const events = new Events();
    const subscription = events.subscribe(10);
    const waiting = next(subscription);
    assert.deepEqual(await subscription.return?.(), { done: true, value: undefined });
    assert.equal(await waiting, "end");
  });

  test("by an error unsubscribes too", async () => {
    const events = new Events();
    const subscription = events.subscribe(10);
    publish(events, 1, 3);
    const loop = async (): Promise<void> => {
      for await (const event of subscription) throw new Error(`can't use ${short(event)}`);
    };
    await assert.rejects(loop(), /can't use 1/);
    assert.equal(await next(subscription), "end");
  });
});

describe("a slow subscriber", () => {
  test("loses what its buffer can't hold, and is told how many, where they are missing", async () => {
    const events = new Events();
    const subscription = events.subscribe(3);
    publish(events, 1, 10);
    assert.equal(await next(subscription), 1);
    assert.equal(await next(subscription), 2);
    publish(events, 11, 20);
    events.close();
    assert.deepEqual(await readAll(subscription), [3, -7, 11, -9]);
  });

  test("is told anew of losses after it has read of the first", async () => {
    const events = new Events();
    const subscription = events.subscribe(1);
    publish(events, 1, 3);
    assert.deepEqual([await next(subscription), await next(subscription)], [1, -2]);
    publish(events, 4, 7);
    events.close();
    assert.deepEqual(await readAll(subscription), [4, -3]);
  });

  test("never holds up the publisher, nor keeps more than its buffer", async () => {
    const events = new Events();
    const subscription = events.subscribe(1_000);
    publish(events, 1, 200_000);
    events.close();
    const read = await readAll(subscription);
    assert.equal(read.length, 1_001);
    assert.deepEqual(read.slice(998), [999, 1_000, -199_000]);
  });
});

test("whenever it reads, a subscriber knows of every event: read, or counted where it is missing", async () => {
  const steps = fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant("publish") }, fc.constant("read")), {
    maxLength: 60,
  });
  const property = fc.asyncProperty(fc.integer({ min: 1, max: 5 }), steps, async (size, sequence) => {
    const events = new Events();
    const subscription = events.subscribe(size);
    const reads: Promise<number | "end">[] = [];
    let published = 0;
    let keptUp = true;
    for (const step of sequence) {
      if (step === "read") reads.push(next(subscription));
      else events.publish(transition(++published));
      keptUp &&= published - reads.length <= size;
    }
    events.close();
    const early = (await Promise.all(reads)).filter((event) => event !== "end");
    const all = [...early, ...(await readAll(subscription))];
    let known = 0;
    for (const event of all) {
      assert.notEqual(event, 0, "a loss of nothing is not told");
      if (event < 0) known -= event;
      else assert.equal(event, ++known);
    }
    assert.equal(known, published);
    if (keptUp) assert.ok(!all.some((event) => event < 0), "nothing is lost while the buffer has room");
    assert.ok(!all.some((event, index) => event < 0 && (all[index + 1] ?? 1) < 0), "losses in a row are told as one");
  });
  await fc.assert(property, { numRuns: 300 });
});
