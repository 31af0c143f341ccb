/** The shop's tables, in the same file as kiln's jobs. */
import { DatabaseSync } from "node:sqlite";
import type { SqliteStore } from "kiln/sqlite";

export interface NewOrder {
  readonly customer: string;
  readonly cents: number;
}

export interface Order extends NewOrder {
  readonly id: number;
  /** Number of the gateway's charge; null = not paid. */
  readonly charge: number | null;
}

export interface Invoice {
  readonly number: number;
  readonly orderId: number;
}

export interface Report {
  readonly at: Date;
  readonly orders: number;
  readonly paid: number;
  /** Of those that are paid. */
  readonly cents: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS shop_orders (
    id       INTEGER PRIMARY KEY,
    customer TEXT NOT NULL,
    cents    INTEGER NOT NULL,
    charge   INTEGER
  ) STRICT;

  CREATE TABLE IF NOT EXISTS shop_invoices (
    number   INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE IF NOT EXISTS shop_mails (
    id       INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL,
    text     TEXT NOT NULL
  ) STRICT;

  CREATE TABLE IF NOT EXISTS shop_reports (
    at     INTEGER PRIMARY KEY,
    orders INTEGER NOT NULL,
    paid   INTEGER NOT NULL,
    cents  INTEGER NOT NULL
  ) STRICT;
`;

/** Makes the tables that are not there yet. */
export function createTables(store: SqliteStore): Promise<void> {
  return store.transaction((tx) => tx.db.exec(SCHEMA));
}

/** Reads what the shop has stored, on a connection of its own. */
export class Orders {
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.#db = new DatabaseSync(path, { readOnly: true });
  }

  close(): void {
    this.#db.close();
  }

  /** @throws Error when there is none */
  get(id: number): Order {
    const row = this.#db.prepare("SELECT * FROM shop_orders WHERE id = ?").get(id);
    if (row === undefined) throw new Error(`there is no order ${id}`);
    return readOrder(row);
  }

  all(): Order[] {
    return this.#db.prepare("SELECT * FROM shop_orders ORDER BY id").all().map(readOrder);
  }

  invoices(): Invoice[] {
    const rows = this.#db.prepare("SELECT * FROM shop_invoices ORDER BY number").all();
    return rows.map((row) => ({ number: Number(row["number"]), orderId: Number(row["order_id"]) }));
  }

  mailCount(): number {
    return Number(this.#db.prepare("SELECT count(*) AS count FROM shop_mails").get()?.["count"]);
  }

  totals(): Omit<Report, "at"> {
    return readTotals(this.#db);
  }

  lastReport(): Report | null {
    const row = this.#db.prepare("SELECT * FROM shop_reports ORDER BY at DESC LIMIT 1").get();
    return row === undefined ? null : { at: new Date(Number(row["at"])), ...readReport(row) };
  }
}

type Row = Readonly<Record<string, unknown>>;

function readOrder({ id, customer, cents, charge }: Row): Order {
  return {
    ...{ id: Number(id), customer: String(customer), cents: Number(cents) },
    charge: charge === null ? null : Number(charge),
  };
}

/** Of all orders so far. */
export function readTotals(db: DatabaseSync): Omit<Report, "at"> {
  const row = db.prepare(
    `SELECT count(*) AS orders, count(charge) AS paid, ifnull(sum(cents) FILTER (WHERE charge NOT NULL), 0) AS cents
     FROM shop_orders`,
  );
  return readReport(row.get() ?? {});
}

function readReport({ orders, paid, cents }: Row): Omit<Report, "at"> {
  return { orders: Number(orders), paid: Number(paid), cents: Number(cents) };
}
