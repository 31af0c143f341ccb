/**
 * Makes `examples/data/customers.csv`, the file that the examples import: 2,000 customers, of which 40 can never be valid.
 * The same seed always gives the same file:
 *
 *     npx node scripts/make-sample.ts
 */
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

export const SAMPLE = join(import.meta.dirname, "../examples/data/customers.csv");
export const ROWS = 2_000;
const SEED = 20_260_101;

type Row = readonly string[];

interface Region {
  readonly country: string;
  readonly first: string;
  readonly last: string;
}

const REGIONS: readonly Region[] = [
  {
    country: "BR",
    first:
      "Ana Bruno Camila Davi Eduarda Felipe Gabriela Heitor Isabela João Larissa Mateus Natália Otávio Renata Thiago",
    last: "Almeida Barbosa Cardoso Duarte Ferreira Gonçalves Lima Machado Nogueira Oliveira Pereira Ribeiro Santos Teixeira",
  },
  {
    country: "PT",
    first: "Afonso Beatriz Carolina Duarte Francisca Guilherme Inês Leonor Madalena Rodrigo Salvador Tomás",
    last: "Antunes Carvalho Esteves Figueiredo Lopes Marques Neves Pinto Rocha Sousa Tavares Vieira",
  },
  {
    country: "DE",
    first: "Anja Björn Clara Dieter Emma Finn Greta Hannes Jürgen Katrin Lukas Mia Niklas Sabine Till Ute",
    last: "Bauer Fischer Groß Hoffmann Jäger Klein Lehmann Müller Neumann Richter Schäfer Vogel Weber Zimmermann",
  },
  {
    country: "FR",
    first: "Adèle Baptiste Chloé Émile François Hélène Jules Léa Margaux Noé Océane Quentin Zoé",
    last: "Bernard Chevalier Dubois Fontaine Girard Lefèvre Mercier Moreau Perrin Renard Rousseau Vidal",
  },
  {
    country: "GB",
    first: "Alice Callum Daisy Edward Freya George Harriet Imogen Oliver Poppy Rhys Sophie",
    last: "Baker Clarke Davies Evans Hughes Morgan O'Neill Parker Shaw Turner Walsh Wright",
  },
  {
    country: "US",
    first: "Aaron Brianna Carlos Diana Ethan Grace Hailey Isaac Jasmine Kevin Maya Noah Olivia Tyler",
    last: "Adams Brooks Carter Diaz Foster Garcia Hayes Jackson Kim Nguyen Ramirez Stewart Washington",
  },
  {
    country: "ES",
    first: "Alba Borja Carmen Diego Elena Iker Jimena Lucía Martín Nuria Pablo Sergio",
    last: "Blanco Cortés Domínguez Fernández Herrera Ibáñez Muñoz Navarro Peña Ramos Serrano Vázquez",
  },
  {
    country: "PL",
    first: "Agnieszka Bartosz Ewa Filip Grzegorz Hanna Jakub Katarzyna Łukasz Magdalena Paweł Zofia",
    last: "Dąbrowska Górski Jankowska Kowalski Lewandowska Mazur Nowak Szymański Wiśniewska Wójcik Zieliński Żak",
  },
  {
    country: "JP",
    first: "Aiko Daisuke Emi Haruto Kaori Kenji Mei Naoki Ren Sakura Takeshi Yui",
    last: "Fujita Hayashi Ito Kobayashi Matsumoto Nakamura Ogawa Saito Suzuki Tanaka Watanabe Yamada",
  },
];

const DOMAINS = ["example.com", "example.org", "example.net", "mail.example.com", "post.example.org"] as const;

/** What is wrong with the rows that can't be valid; each is there twice. `other` is an earlier row. */
const DEFECTS: readonly ((row: Row, other: Row) => Row)[] = [
  (row) => row.with(0, ""),
  (row) => row.with(0, `K${row[0]?.slice(3)}`),
  (row, other) => row.with(0, other[0] ?? ""),
  (row) => row.with(1, ""),
  (row) => row.with(1, "Customer 4711"),
  (row) => row.with(2, ""),
  (row) => row.with(2, row[2]?.replace("@", " at ") ?? ""),
  (row) => row.with(2, row[2]?.replace(/@.*/, "@localhost") ?? ""),
  (row) => row.with(3, ""),
  (row) => row.with(3, "XX"),
  (row) => row.with(3, "Atlantis"),
  (row) => row.with(4, ""),
  (row) => row.with(4, "2023-02-30"),
  (row) => row.with(4, "31/12/2024"),
  (row) => row.with(5, ""),
  (row) => row.with(5, `-${row[5]}`),
  (row) => row.with(5, "twelve"),
  (row) => row.with(2, "").with(5, "-1.00"),
  (row) => row.slice(0, 4),
  (row) => row.map(() => ""),
];
const TIMES = 2;

export function makeSample(): string {
  const random = seededRandom(SEED);
  const rows = Array.from({ length: ROWS }, (_, index) => makeCustomer(index + 1, random));
  // Evenly spread and in a mixed order, so that each part of the import meets some of them.
  const distance = ROWS / (DEFECTS.length * TIMES);
  for (let number = 0; number < DEFECTS.length * TIMES; number++) {
    const at = Math.floor((number + random()) * distance);
    const defect = DEFECTS[(number * 7) % DEFECTS.length];
    const [row, other] = [rows[at], rows[Math.max(at - 5, 0)]];
    if (defect && row && other) rows[at] = defect(row, other);
  }
  const header = ["customer_id", "name", "email", "country", "signed_up", "amount"];
  return [header, ...rows].map((row) => `${row.map(quote).join(",")}\n`).join("");
}

function makeCustomer(number: number, random: () => number): Row {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const region = pick(REGIONS);
  const [first, last] = [pick(region.first.split(" ")), pick(region.last.split(" "))];
  // Some systems write the family name first, with a comma that has to be quoted.
  const name = random() < 0.1 ? `${last}, ${first}` : `${first} ${last}`;
  const email = `${ascii(first)}.${ascii(last)}${number}@${pick(DOMAINS)}`;
  const day = new Date(Date.UTC(2015, 0, 1 + Math.floor(random() * 4_000)));
  const amount = (random() ** 3 * 5_000).toFixed(2);
  return [`C-${String(number).padStart(6, "0")}`, name, email, region.country, day.toISOString().slice(0, 10), amount];
}

function ascii(name: string): string {
  const letters = name.toLowerCase().replaceAll("ß", "ss").replaceAll("ł", "l");
  return letters.normalize("NFD").replaceAll(/[^a-z]/g, "");
}

function quote(field: string): string {
  return /[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

/** Uniform numbers in [0, 1) that depend on the seed alone. */
function seededRandom(seed: number): () => number {
  let count = 0;
  return () => {
    const digest = createHash("sha256").update(`${seed}:${count++}`).digest();
    return digest.readUInt32BE() / 2 ** 32;
  };
}

if (import.meta.main) await writeFile(SAMPLE, makeSample());
