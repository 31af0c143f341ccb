/**
 * Stands for a payment gateway of someone else's: it has a database and a clock of its own, refuses more than 20 requests in
 * any second, and fails 15 % of the others, half of them only after it has charged. A second request with the same
 * idempotency key charges nothing, and gets the charge of the first one.
 */
import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { SecondWindow } from "./second-window.ts";

/** Requests that it takes in any second. */
export const GATEWAY_LIMIT = 20;
const FAILS = 0.15;

export interface ChargeRequest {
  /** Idempotency key. */
  readonly key: string;
  readonly order: number;
  readonly cents: number;
}

export interface Charge extends ChargeRequest {
  readonly id: number;
}

export interface GatewayRequest {
  /** When it arrived, milliseconds of the gateway's clock. */
  readonly at: number;
  readonly key: string;
  readonly order: number;
  readonly status: number;
}

export interface GatewayReply {
  /** Of HTTP. */
  readonly status: number;
  readonly charge?: number;
}

/** Since its process began. */
export interface GatewayStatistics {
  readonly requests: number;
  readonly failed: number;
  readonly refused: number;
  readonly busiestSecond: number;
}

/** What its process tells the one that has started it: first its address, then what has happened so far. */
export type GatewayNews = string | GatewayStatistics;

// Never waits for the disk, because a request that arrives meanwhile would be counted late.
const SCHEMA = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = OFF;
  CREATE TABLE IF NOT EXISTS gateway_charges (
    id       INTEGER PRIMARY KEY,
    key      TEXT NOT NULL UNIQUE,
    order_id INTEGER NOT NULL,
    cents    INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS gateway_requests (
    number   INTEGER PRIMARY KEY,
    at       REAL NOT NULL,
    key      TEXT NOT NULL,
    order_id INTEGER NOT NULL,
    status   INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS gateway_requests_order ON gateway_requests (order_id);
`;

export class Gateway {
  readonly #db: DatabaseSync;
  readonly #window = new SecondWindow();
  #requests = 0;
  #failed = 0;
  #refused = 0;

  constructor(path: string) {
    this.#db = new DatabaseSync(path);
    this.#db.exec(SCHEMA);
  }

  close(): void {
    this.#db.close();
  }

  /** Counts a request that arrives at `at`, in order. False = it must be refused. */
  admit(at: number): boolean {
    this.#requests++;
    const admitted = this.#window.add(at) <= GATEWAY_LIMIT;
    if (!admitted) this.#refused++;
    return admitted;
  }

  reply(request: ChargeRequest, at: number, admitted: boolean): GatewayReply {
    const reply = admitted ? this.#process(request) : { status: 429 };
    const insert = "INSERT INTO gateway_requests (at, key, order_id, status) VALUES (?, ?, ?, ?)";
    this.#db.prepare(insert).run(at, request.key, request.order, reply.status);
    if (reply.status === 500) this.#failed++;
    return reply;
  }

  statistics(): GatewayStatistics {
    const { busiest } = this.#window;
    return { requests: this.#requests, failed: this.#failed, refused: this.#refused, busiestSecond: busiest };
  }

  #process(request: ChargeRequest): GatewayReply {
    const chance = this.#chance(request.order);
    if (chance < FAILS / 2) return { status: 500 };
    const { id, order, cents } = this.#charge(request);
    if (chance < FAILS) return { status: 500 };
    // The key was for something else.
    if (order !== request.order || cents !== request.cents) return { status: 422 };
    return { status: 200, charge: id };
  }

  #charge({ key, order, cents }: ChargeRequest): Charge {
    const insert = "INSERT INTO gateway_charges (key, order_id, cents) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    this.#db.prepare(insert).run(key, order, cents);
    const row = this.#db.prepare("SELECT * FROM gateway_charges WHERE key = ?").get(key);
    return { id: Number(row?.["id"]), key, order: Number(row?.["order_id"]), cents: Number(row?.["cents"]) };
  }

  /** From 0 to 1, by order and attempt alone, so that each run of the shop meets the same failures. */
  #chance(order: number): number {
    const row = this.#db.prepare("SELECT count(*) AS count FROM gateway_requests WHERE order_id = ?").get(order);
    return createHash("sha256").update(`${order}:${row?.["count"]}`).digest().readUInt32BE() / 2 ** 32;
  }
}

/** What a gateway has written down, requests in the order of their arrival. */
export function readGateway(path: string): { readonly charges: Charge[]; readonly requests: GatewayRequest[] } {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    const charges = db.prepare("SELECT * FROM gateway_charges ORDER BY id").all();
    const requests = db.prepare("SELECT * FROM gateway_requests ORDER BY at, number").all();
    return {
      charges: charges.map(({ id, key, order_id: order, cents }) => ({
        ...{ id: Number(id), key: String(key), order: Number(order), cents: Number(cents) },
      })),
      requests: requests.map(({ at, key, order_id: order, status }) => ({
        ...{ at: Number(at), key: String(key), order: Number(order), status: Number(status) },
      })),
    };
  } finally {
    db.close();
  }
}
