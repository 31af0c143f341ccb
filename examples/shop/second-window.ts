/** Counts how many arrive in a second. */

const SECOND = 1_000;

export class SecondWindow {
  /** Of the last second, oldest first. */
  readonly #arrivals: number[] = [];
  #busiest = 0;

  /** Notes an arrival, in order. Returns how many there were in the second that ends with it, both ends included. */
  add(at: number): number {
    this.#arrivals.push(at);
    while ((this.#arrivals[0] ?? at) < at - SECOND) this.#arrivals.shift();
    this.#busiest = Math.max(this.#busiest, this.#arrivals.length);
    return this.#arrivals.length;
  }

  /** The most that any second has seen. */
  get busiest(): number {
    return this.#busiest;
  }
}

/** The most that any second has seen of these arrivals, which are in order, in milliseconds. */
export function busiestSecond(arrivals: Iterable<number>): number {
  const window = new SecondWindow();
  for (const at of arrivals) window.add(at);
  return window.busiest;
}
