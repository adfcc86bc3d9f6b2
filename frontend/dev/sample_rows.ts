/** Rows of a sample table that a query leaves, and what their headers show. */
import type { CubeAnswer, Filter, Header, Query } from "../src/protocol";
import { type SampleColumn, type SampleTable, utc } from "./sample_data";

/** A filter that is no value of its column; the message is what the kernel would say. */
export class Wrong extends Error {}

const BARS = 12;
const DEFAULTS: Query = { filters: [], sorts: [], search: "" };

/** The bars of a column: where each begins, or the codes that they stand for. */
interface Bars {
  ranges: boolean;
  labels: string[];
  low: number;
  width: number;
  ends?: [string, string];
}

export class SampleRows {
  private readonly codes = new Map<string, Float64Array>();
  private readonly found = new Map<string, Int32Array>();
  private readonly bars = new Map<string, Bars>();

  constructor(readonly table: SampleTable) {}

  column(name: string): SampleColumn {
    const found = this.table.columns.find((each) => each.column.name === name);
    if (!found) throw new Wrong(`There is no column '${name}'.`);
    return found;
  }

  /** The numbers of the rows that a query leaves, in its order. */
  select(version: number, query: Query): Int32Array {
    const key = JSON.stringify([version, query]);
    let rows = this.found.get(key);
    if (!rows) {
      rows = this.read(version, query);
      if (this.found.size > 40) this.found.clear();
      this.found.set(key, rows);
    }
    return rows;
  }

  header(version: number, query: Query, name: string): Header {
    const bars = this.barsOf(version, name);
    const all = this.count(version, DEFAULTS, name, bars);
    const left = this.count(version, query, name, bars);
    const distinct = bars.labels.length > 0 && !bars.ranges ? bars.labels.length : null;
    return {
      ranges: bars.ranges, bars: bars.labels, counts: left.counts, of: all.counts, nulls: left.nulls, rows: left.rows,
      distinct: distinct ?? (this.column(name).column.kind === "nested" ? null : Math.round(left.rows * 0.011)),
      exact: distinct !== null,
      ...(bars.ends ? { ends: bars.ends } : {}),
    };
  }

  cube(version: number, query: Query, brushed: string, names: string[]): CubeAnswer {
    const others = { ...query, filters: query.filters.filter((each) => each.column !== brushed) };
    const rows = this.select(version, others);
    const across = this.barsOf(version, brushed);
    const answer: CubeAnswer = { version, column: brushed, rows: Array<number>(across.labels.length).fill(0), columns: {} };
    const at = this.codesOf(brushed);
    for (const row of rows) {
      const bar = barOf(at[row] as number, across);
      if (bar >= 0) answer.rows[bar] = (answer.rows[bar] as number) + 1;
    }
    for (const name of names) {
      if (name === brushed) continue;
      const [bars, codes] = [this.barsOf(version, name), this.codesOf(name)];
      const counts = across.labels.map(() => Array<number>(bars.labels.length).fill(0));
      const nulls = Array<number>(across.labels.length).fill(0);
      for (const row of rows) {
        const [first, second] = [barOf(at[row] as number, across), barOf(codes[row] as number, bars)];
        if (first < 0) continue;
        const line = counts[first] as number[];
        if (second >= 0) line[second] = (line[second] as number) + 1;
        else if (Number.isNaN(codes[row])) nulls[first] = (nulls[first] as number) + 1;
      }
      answer.columns[name] = { counts, nulls };
    }
    return answer;
  }

  /** The filters as SQL. */
  where(version: number, query: Query): string {
    const parts = query.filters.map((each) => this.condition(version, each));
    if (query.search) parts.push(`contains(lower(concat_ws(' ', *)), '${query.search.toLowerCase()}')`);
    return parts.join(" AND ");
  }

  private read(version: number, query: Query): Int32Array {
    const { table } = this;
    const tests = query.filters.map((each) => this.test(version, each));
    const searched = query.search.toLowerCase();
    const texts = table.columns.filter((each) => each.column.kind === "string");
    const rows = new Int32Array(table.rows);
    let count = 0;
    for (let row = 0; row < table.rows; row++) {
      if (!table.has(row, version) || !tests.every((test) => test(row))) continue;
      if (searched && !texts.some((each) => this.text(each, row).toLowerCase().includes(searched))) continue;
      rows[count++] = row;
    }
    return this.sorted(rows.slice(0, count), query);
  }

  private sorted(rows: Int32Array, query: Query): Int32Array {
    const by = query.sorts.map((each) => ({ codes: this.codesOf(each.column), sign: each.descending ? -1 : 1 }));
    if (by.length === 0) return rows;
    return rows.sort((a, b) => {
      for (const { codes, sign } of by) {
        const [first, second] = [codes[a] as number, codes[b] as number];
        if (first === second) continue;
        if (Number.isNaN(first)) return Number.isNaN(second) ? 0 : 1; // NULLs are last
        if (Number.isNaN(second)) return -1;
        return sign * (first - second);
      }
      return a - b;
    });
  }

  private codesOf(name: string): Float64Array {
    let codes = this.codes.get(name);
    if (!codes) {
      const column = this.column(name);
      codes = Float64Array.from({ length: this.table.rows }, (_, row) => column.code(row));
      this.codes.set(name, codes);
    }
    return codes;
  }

  private text(column: SampleColumn, row: number): string {
    const code = column.code(row);
    return Number.isNaN(code) ? "" : column.text(code, row);
  }

  private barsOf(version: number, name: string): Bars {
    const key = `${version} ${name}`;
    let bars = this.bars.get(key);
    if (!bars) {
      bars = this.makeBars(version, this.column(name));
      this.bars.set(key, bars);
    }
    return bars;
  }

  private makeBars(version: number, column: SampleColumn): Bars {
    if (column.labels) return { ranges: false, labels: column.labels, low: 0, width: 1 };
    const rows = this.select(version, DEFAULTS);
    if (["nested", "string"].includes(column.column.kind) || rows.length === 0) {
      return { ranges: true, labels: [], low: 0, width: 1 };
    }
    const codes = this.codesOf(column.column.name);
    let [low, high] = [Infinity, -Infinity];
    for (const row of rows) {
      const code = codes[row] as number;
      if (code < low) low = code;
      if (code > high) high = code;
    }
    const width = (high - low) / BARS || 1;
    const edge = (place: number): string =>
      column.column.kind === "timestamp" ? utc(place).slice(0, 10) : String(Math.round(place * 10) / 10);
    const edges = Array.from({ length: BARS + 1 }, (_, i) => edge(low + i * width));
    const labels = edges.slice(1).map((end, i) => (i === 0 ? `≤ ${end}` : `${edges[i]} < … ≤ ${end}`));
    return { ranges: true, labels, low, width, ends: [edges[0] as string, edges.at(-1) as string] };
  }

  private count(version: number, query: Query, name: string, bars: Bars): { counts: number[]; nulls: number; rows: number } {
    const [rows, codes] = [this.select(version, { ...query, sorts: [] }), this.codesOf(name)];
    const counts = Array<number>(bars.labels.length).fill(0);
    let nulls = 0;
    for (const row of rows) {
      const bar = barOf(codes[row] as number, bars);
      if (bar >= 0) counts[bar] = (counts[bar] as number) + 1;
      else if (Number.isNaN(codes[row])) nulls++;
    }
    return { counts, nulls, rows: rows.length };
  }

  private test(version: number, filter: Filter): (row: number) => boolean {
    const codes = this.codesOf(filter.column);
    const bars = this.barsOf(version, filter.column);
    if ("bars" in filter) {
      return (row) => {
        const bar = barOf(codes[row] as number, bars);
        return bar >= filter.bars[0] && bar <= filter.bars[1];
      };
    }
    if ("value" in filter) return (row) => barOf(codes[row] as number, bars) === filter.value;
    if ("low" in filter) {
      const column = this.column(filter.column);
      const { low, high } = filter;
      return (row) => (low === null || this.text(column, row) >= low) && (high === null || this.text(column, row) < high);
    }
    return this.typed(this.column(filter.column), filter.text.trim());
  }

  /** What a user typed: `null`, `> 20`, `= AA, UA`, or a part of a text. */
  private typed(column: SampleColumn, typed: string): (row: number) => boolean {
    const codes = this.codesOf(column.column.name);
    if (typed.toLowerCase() === "null") return (row) => Number.isNaN(codes[row]);
    const [, sign, rest] = /^(<=|>=|<|>|=)?\s*(.*)$/.exec(typed) as unknown as [string, string | undefined, string];
    if (column.column.kind === "string" || column.column.kind === "nested") {
      const wanted = rest.split(",").map((each) => each.trim().toLowerCase());
      if (sign === "=") return (row) => wanted.includes(this.text(column, row).toLowerCase());
      return (row) => this.text(column, row).toLowerCase().includes(rest.toLowerCase());
    }
    const place = column.column.kind === "timestamp" ? Date.parse(rest) : Number(rest);
    if (Number.isNaN(place)) throw new Wrong(`no ${column.column.type.replace("?", "")} is '${rest}'`);
    const tests: Record<string, (code: number) => boolean> = {
      "<": (code) => code < place, ">": (code) => code > place, "<=": (code) => code <= place,
      ">=": (code) => code >= place, "=": (code) => code === place,
    };
    const test = tests[sign ?? "="] as (code: number) => boolean;
    return (row) => test(codes[row] as number);
  }

  private condition(version: number, filter: Filter): string {
    const name = filter.column;
    const bars = this.barsOf(version, filter.column);
    if ("text" in filter) return filter.text.toLowerCase() === "null" ? `${name} IS NULL` : `${name} ${filter.text}`;
    if ("value" in filter) return `${name} = '${bars.labels[filter.value]}'`;
    if ("low" in filter) return `${name} >= '${filter.low ?? ""}' AND ${name} < '${filter.high ?? "~"}'`;
    const edge = (bar: number): number => Math.round((bars.low + bar * bars.width) * 10) / 10;
    return `${name} > ${edge(filter.bars[0])} AND ${name} <= ${edge(filter.bars[1] + 1)}`;
  }
}

function barOf(code: number, bars: Bars): number {
  if (Number.isNaN(code)) return -1;
  return Math.min(bars.labels.length - 1, Math.floor((code - bars.low) / bars.width));
}
