/** Tables that look like those of flights, made from row numbers: each value is the same each time, and none is kept. */
import type { Cell, Column, Kind, Tree, Versions } from "../src/protocol";

/** A column whose values are made on demand; `code` orders and counts them (NaN is NULL), `text` shows them. */
export interface SampleColumn {
  column: Column;
  code(row: number): number;
  text(code: number, row: number): string;
  labels?: string[]; // of codes that are values and not places on a scale
  tree?(row: number): Tree;
}

export interface SampleTable {
  name: string;
  comment: string;
  rows: number; // of the newest version
  columns: SampleColumn[];
  versions: Versions;
  /** Whether a version has a row of the newest one. */
  has(row: number, version: number): boolean;
  due: string[];
  problem: string;
}

const DAY = 86_400_000;
const MONTHS = [27_004, 24_951, 28_834, 28_330, 28_796, 28_243, 29_425, 29_327, 27_574, 28_889, 27_268, 28_135];
export const FLIGHTS = 336_776;
const STARTS = MONTHS.map((_, i) => MONTHS.slice(0, i).reduce((sum, rows) => sum + rows, 0));
const CARRIERS: [string, number][] = [
  ["9E", 18_460], ["AA", 32_729], ["AS", 714], ["B6", 54_635], ["DL", 48_110], ["EV", 54_173], ["F9", 685],
  ["FL", 3_260], ["HA", 342], ["MQ", 26_397], ["OO", 32], ["UA", 58_665], ["US", 20_536], ["VX", 5_162],
  ["WN", 12_275], ["YV", 601],
];
const CARRIER_STARTS = CARRIERS.map((_, i) => CARRIERS.slice(0, i).reduce((sum, [, rows]) => sum + rows, 0));
const ORIGINS = ["EWR", "JFK", "LGA"];
const MAKERS = ["AIRBUS", "BOEING", "BOMBARDIER INC", "EMBRAER"];
const WEATHER = ["Thunderstorms over the arrival corridor", "Ground stop because of fog", "A late inbound aircraft", ""];

/** A number from 0 to 1 that looks random and is always the same for a row and a purpose. */
export function noise(row: number, salt: number): number {
  let h = Math.imul(row + 1, 0x9e3779b1) ^ Math.imul(salt + 7, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return ((h ^ (h >>> 15)) >>> 0) / 2 ** 32;
}

/** Which of sorted starts a number is in. */
function within(starts: number[], number: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] as number) <= number) low = middle;
    else high = middle - 1;
  }
  return low;
}

const monthOf = (row: number): number => within(STARTS, (row * 123_457) % FLIGHTS); // each month has its exact count
const carrierOf = (row: number): number => within(CARRIER_STARTS, row);
const delayOf = (row: number): number =>
  noise(row, 3) < 0.0245 ? NaN : Math.round(-12 - 18 * Math.log(1 - noise(row, 4) * 0.9999) + monthOf(row) % 7);

function column(name: string, type: string, kind: Kind, more: Partial<Column> = {}): Column {
  return { name, type, kind, role: "", nullable: type.endsWith("?"), default: null, comment: "", ...more };
}

export function utc(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replace("T", " ");
}

function remarks(row: number): string {
  const reason = WEATHER[Math.floor(noise(row, 5) * WEATHER.length)] as string;
  if (!reason) return "";
  const again = noise(row, 6) < 0.02 ? 60 : 1;
  return `${reason}; crew informed, passengers rebooked where needed. <b>No markup</b> `.repeat(again).trim();
}

function flightColumns(more: number): SampleColumn[] {
  const columns: SampleColumn[] = [
    {
      column: column("carrier", "string", "string", { role: "row key", comment: "Two letters of IATA" }),
      code: carrierOf,
      text: (code) => (CARRIERS[code] as [string, number])[0],
      labels: CARRIERS.map(([name]) => name),
    },
    {
      column: column("flight", "int", "integer", { role: "row key" }),
      code: (row) => {
        const carrier = carrierOf(row);
        const [, rows] = CARRIERS[carrier] as [string, number];
        return 1 + Math.floor(((row - (CARRIER_STARTS[carrier] as number)) / rows) * (1_500 + carrier * 300));
      },
      text: String,
    },
    {
      column: column("time_hour", "timestamp", "timestamp", { role: "sort key", comment: "Scheduled hour, in UTC" }),
      code: (row) => Date.UTC(2013, monthOf(row), 1 + Math.floor(noise(row, 1) * 28), 9 + Math.floor(noise(row, 2) * 15)),
      text: (code) => utc(code),
    },
    {
      column: column("origin", "string", "string"),
      code: (row) => Math.floor(noise(row, 7) * 3),
      text: (code) => ORIGINS[code] as string,
      labels: ORIGINS,
    },
    {
      column: column("dep_delay", "double?", "float", { comment: "Minutes; negative is early, NULL was cancelled" }),
      code: delayOf,
      text: (code) => code.toFixed(1),
    },
    {
      column: column("fare", "decimal(12,2)", "decimal", { default: "0.00" }),
      code: (row) => Math.round((noise(row, 8) ** 3 * 1_400 + 49) * 100) / 100,
      text: (code) => code.toFixed(2),
    },
    {
      column: column("aircraft", "struct<tail:string?,maker:string,seats:list<int>>?", "nested"),
      code: (row) => (noise(row, 9) < 0.01 ? NaN : Math.floor(noise(row, 10) * MAKERS.length)),
      text: (code, row) => `{tail: N${100 + (row % 899)}UA, maker: ${MAKERS[code]}, seats: [12, 138]}`,
      tree: (row) => ({
        text: "struct of 3",
        items: [
          ["tail", { text: `N${100 + (row % 899)}UA` }],
          ["maker", { text: MAKERS[Math.floor(noise(row, 10) * MAKERS.length)] as string }],
          ["seats", { text: "list of 2", items: [["0", { text: "12" }], ["1", { text: "138" }]] }],
        ],
      }),
    },
    {
      column: column("remarks", "string?", "string"),
      code: (row) => (noise(row, 11) < 0.4 ? NaN : Math.floor(noise(row, 5) * WEATHER.length)),
      text: (_, row) => remarks(row),
      tree: (row) => ({ text: remarks(row) }),
    },
  ];
  for (let i = columns.length; i < more; i++) {
    columns.push({ column: column(`c${i}`, "int", "integer"), code: (row) => Math.floor(noise(row, i) * 100), text: String });
  }
  return columns;
}

interface Commit {
  kind: string;
  change: string;
  message?: string;
  rows: number;
}

function versionsOf(commits: Commit[], savepoints: Record<string, string[]>): Versions {
  const end = Date.UTC(2026, 10, 29, 9, 2);
  let bytes = 0;
  return {
    number: commits.map((_, i) => i + 1),
    committed: commits.map((_, i) => end - (commits.length - 1 - i) * (DAY + 37 * 60_000)),
    kind: commits.map((each) => each.kind),
    change: commits.map((each) => each.change),
    message: commits.map((each) => each.message ?? ""),
    rows: commits.map((each) => each.rows),
    bytes: commits.map((each) => (bytes = each.rows * 24 + (each.kind === "compact" ? 0 : bytes * 0.02)) | 0),
    savepoints,
  };
}

const grouped = (number: number): string => number.toLocaleString("en-US");
const NAMES = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
  "December"];
const BORN = [2, 3, 4, 5, 6, 7, 9, 10, 13, 14, 17, 18]; // the version that brought each month
const SAME: Record<number, Commit> = {
  1: { kind: "create", change: "", rows: 0 },
  8: { kind: "compact", change: "9 files into 4", rows: 0 },
  11: { kind: "ingest", change: "+1,200 rows", message: "August again, by mistake", rows: 1_200 },
  12: { kind: "delete", change: "−1,200 rows", message: "The double rows of August go", rows: 0 },
  15: { kind: "update", change: "1,335 rows changed", message: "Delays of fog corrected", rows: 0 },
  16: { kind: "split", change: "20 partitions into 40", rows: 0 },
};

function flightCommits(many: number): Commit[] {
  const commits: Commit[] = [];
  let rows = 0;
  for (let version = 1; version <= 18; version++) {
    const month = BORN.indexOf(version);
    if (month >= 0) rows += MONTHS[month] as number;
    const message = `${NAMES[month]} 2013, from the bureau`;
    commits.push(
      month >= 0
        ? { kind: month % 5 === 4 ? "bulk_import" : "ingest", change: `+${grouped(MONTHS[month] as number)} rows`, message, rows }
        : { ...(SAME[version] as Commit), rows: rows + (SAME[version] as Commit).rows },
    );
  }
  for (let version = 19; version <= many; version++) {
    const kind = version % 7 === 0 ? "compact" : version % 11 === 0 ? "update" : "ingest";
    commits.push({ kind, change: kind === "ingest" ? "+100 rows" : "", rows: rows + version * 100 });
  }
  return commits;
}

export function flights(versions = 18, columns = 8): SampleTable {
  return {
    name: "flights",
    comment: "All flights that left New York City in 2013",
    rows: FLIGHTS,
    columns: flightColumns(columns),
    versions: versionsOf(flightCommits(versions), { 8: ["half-year"], 14: ["before-correction", "audit 2013"] }),
    has: (row, version) => (BORN[monthOf(row)] as number) <= version,
    due: ["compaction", "garbage collection"],
    problem: "",
  };
}

export function airports(): SampleTable {
  const commits = [{ kind: "create", change: "", rows: 0 }, { kind: "ingest", change: "+1,458 rows", rows: 1_458 }];
  return {
    name: "airports",
    comment: "",
    rows: 1_458,
    columns: [
      {
        column: column("faa", "string", "string", { role: "row key" }),
        code: (row) => row,
        text: (code) => [code / 676, (code / 26) % 26, code % 26].map((n) => String.fromCharCode(65 + n)).join(""),
      },
      { column: column("name", "string", "string"), code: (row) => row, text: (code) => `Airport ${code}` },
      { column: column("altitude", "int?", "integer"), code: (row) => Math.floor(noise(row, 1) * 9_000), text: String },
    ],
    versions: versionsOf(commits, {}),
    has: (_, version) => version > 1,
    due: [],
    problem: "",
  };
}

/** A table that has no rows yet. */
export function empty(name: string): SampleTable {
  return {
    name,
    comment: "Nothing was loaded yet",
    rows: 0,
    columns: [
      { column: column("id", "long", "integer", { role: "row key" }), code: () => 0, text: String },
      { column: column("day", "date?", "date"), code: () => 0, text: String },
    ],
    versions: versionsOf([{ kind: "create", change: "", rows: 0 }], {}),
    has: () => false,
    due: [],
    problem: "",
  };
}

const LONGEST = 120;

export function cellOf(each: SampleColumn, row: number): Cell {
  const code = each.code(row);
  if (Number.isNaN(code)) return null;
  const text = each.text(code, row);
  return text.length > LONGEST ? { cut: text.slice(0, LONGEST), length: text.length } : text;
}
