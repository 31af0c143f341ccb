/** Priority queues of jobs, from which any job can be taken out. */

/** What a heap can hold. A thing stands in one heap at a time. */
export interface Placed {
  /** Where it stands in its heap. Kept by the heap. */
  place: number;
}

/** A binary heap whose items know their places, so that removing one costs no search and leaves nothing behind. */
export class Heap<Item extends Placed> {
  readonly #items: Item[] = [];
  readonly #before: (a: Item, b: Item) => boolean;

  /** `before` must be a strict total order. */
  constructor(before: (a: Item, b: Item) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }

  /** The first by order. */
  get first(): Item | undefined {
    return this.#items[0];
  }

  add(item: Item): void {
    this.#rise(item, this.#items.length);
  }

  /** `item` must be in this heap. */
  remove(item: Item): void {
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    const parent = this.#items[(item.place - 1) >> 1];
    if (item.place > 0 && parent !== undefined && this.#before(last, parent)) this.#rise(last, item.place);
    else this.#sink(last, item.place);
  }

  #put(item: Item, place: number): void {
    this.#items[place] = item;
    item.place = place;
  }

  /** Puts `item` at `place`, or as far above as it belongs. */
  #rise(item: Item, place: number): void {
    let at = place;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = this.#items[above] as Item;
      if (!this.#before(item, parent)) break;
      this.#put(parent, at);
      at = above;
    }
    this.#put(item, at);
  }

  /** Puts `item` at `place`, or as far below as it belongs. */
  #sink(item: Item, place: number): void {
    let at = place;
    while (true) {
      const child = this.#earlierChild(at);
      if (child === null || !this.#before(child, item)) break;
      const below = child.place;
      this.#put(child, at);
      at = below;
    }
    this.#put(item, at);
  }

  #earlierChild(place: number): Item | null {
    const left = this.#items[2 * place + 1];
    const right = this.#items[2 * place + 2];
    if (left === undefined) return null;
    return right !== undefined && this.#before(right, left) ? right : left;
  }
}
