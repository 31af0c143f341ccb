/**
 * Random numbers that are hashes of (seed, stream, counter), one stream for each purpose, never one generator for all: when
 * a fault is taken out of a scenario, everything that it has nothing to do with draws the same numbers as before.
 */

/** Mixes 32 bits into 32 bits (the finalizer of MurmurHash3 over a sum with Weyl steps). */
export function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ value, 0x9e37_79b1);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x85eb_ca77);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2_ae3d);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** FNV-1a over UTF-16 units. */
export function hashText(text: string): number {
  let hash = 0x811c_9dc5;
  for (let place = 0; place < text.length; place++) hash = Math.imul(hash ^ text.charCodeAt(place), 0x0100_0193);
  return hash >>> 0;
}

const UNIT = 2 ** 32;

/** The numbers of one purpose. */
export class Stream {
  readonly #hash: number;
  #drawn = 0;

  constructor(seed: number, name: string) {
    this.#hash = mix(mix(seed >>> 0, Math.floor(seed / UNIT)), hashText(name));
  }

  /** 32 bits. */
  bits(): number {
    this.#drawn += 1;
    return mix(this.#hash, this.#drawn);
  }

  /** In [0, 1). */
  unit(): number {
    return this.bits() / UNIT;
  }

  /** In [low, high). */
  between(low: number, high: number): number {
    return low + this.unit() * (high - low);
  }

  hex(bytes: number): string {
    let text = "";
    for (let byte = 0; byte < bytes; byte++) text += (this.bits() & 0xff).toString(16).padStart(2, "0");
    return text;
  }
}
