/** What a row must be like to become a record: a customer, when the columns are those of customers, else anything. */
import { z } from "zod";

/** Field by column. */
export type ImportRecord = Readonly<Record<string, string>>;

/** Either a record, or why there can never be one. */
export type Checked =
  | { readonly record: ImportRecord; readonly problems?: undefined }
  | { readonly record?: undefined; readonly problems: readonly string[] };

/** In any order. */
export const CUSTOMER_COLUMNS = ["customer_id", "name", "email", "country", "signed_up", "amount"] as const;

/** ISO 3166-1. */
export const COUNTRIES: ReadonlySet<string> = new Set(
  (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
    "CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR " +
    "GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO " +
    "JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR " +
    "MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO " +
    "RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV " +
    "TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"
  ).split(" "),
);

const Customer = z.object({
  customer_id: field("customer id", /^C-\d{6}$/, "is not of the form C-000123"),
  name: field("name", /^\P{Nd}{2,80}$/u, "is not 2 to 80 characters without digits"),
  email: field("e-mail address", z.regexes.email, "is not valid"),
  country: field("country", (text) => COUNTRIES.has(text), "is unknown"),
  signed_up: field("sign-up date", (text) => z.iso.date().safeParse(text).success, "is not a date"),
  amount: field("amount", isNumber, "is not a number").refine(
    (text) => !isNumber(text) || /^\d+(\.\d{1,2})?$/.test(text),
    {
      error: ({ input }) =>
        `amount ${cut(input)} ${cut(input).startsWith("-") ? "is negative" : "has too many decimals"}`,
    },
  ),
});

/** A text that must be there, and be as `rule` says; `problem` says that it isn't. */
function field(name: string, rule: RegExp | ((text: string) => boolean), problem: string): z.ZodString {
  const fits = typeof rule === "function" ? rule : (text: string) => rule.test(text);
  return z.string().refine((text) => text !== "" && fits(text), {
    error: ({ input }) => (input === "" ? `${name} is missing` : `${name} ${cut(input)} ${problem}`),
    abort: true,
  });
}

/** For messages. */
function cut(input: unknown): string {
  const text = String(input);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function isNumber(text: string): boolean {
  return /^-?\d+(\.\d+)?$/.test(text);
}

/**
 * Checks one row. `firstRowOf` gives the first row that has a customer id; of several rows with the same one all but the
 * first are refused.
 */
export function checkRow(
  columns: readonly string[],
  row: number,
  fields: readonly string[],
  firstRowOf: (customerId: string) => number | undefined,
): Checked {
  const trimmed = fields.map((text) => text.trim());
  if (trimmed.every((text) => text === "")) return { problems: ["all fields are empty"] };
  if (fields.length !== columns.length) {
    return { problems: [`there are ${fields.length} fields, but ${columns.length} columns`] };
  }
  const recordOf = (values: readonly string[]): ImportRecord =>
    Object.fromEntries(columns.map((column, index) => [column, values[index] ?? ""]));
  if (!areCustomers(columns)) return { record: recordOf(fields) };
  const record = recordOf(trimmed);
  const { error } = Customer.safeParse(record);
  const problems = error?.issues.map((issue) => issue.message) ?? [];
  const id = customerIdOf(columns, fields);
  const first = id === null ? undefined : firstRowOf(id);
  if (first !== undefined && first < row) problems.push(`customer id ${id} was there before, in row ${first}`);
  return problems.length > 0 ? { problems } : { record };
}

/** Null for a row that has none, and for files that are not about customers. */
export function customerIdOf(columns: readonly string[], fields: readonly string[]): string | null {
  if (!areCustomers(columns) || fields.length !== columns.length) return null;
  return fields[columns.indexOf("customer_id")]?.trim() || null;
}

function areCustomers(columns: readonly string[]): boolean {
  return columns.length === CUSTOMER_COLUMNS.length && CUSTOMER_COLUMNS.every((column) => columns.includes(column));
}
