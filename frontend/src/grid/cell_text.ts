/** How the value of a cell is written in a grid, and what is copied of it. Pure. */
import type { Cell, Kind } from "../protocol";

const NUMBERS: Kind[] = ["integer", "float", "decimal"];

export function isNumber(kind: Kind): boolean {
  return NUMBERS.includes(kind);
}

/** Digits in groups of three, from five digits on: `2013` and `12,345`. The text stays exact. */
export function grouped(text: string): string {
  const [, sign, digits, rest] = /^([-−]?)(\d{5,})(\..*)?$/.exec(text) ?? [];
  if (digits === undefined) return text;
  return `${sign}${digits.replace(/\B(?=(\d{3})+$)/g, ",")}${rest ?? ""}`;
}

/** How many characters a number has from its point on. */
export function fraction(cell: Cell): number {
  const at = typeof cell === "string" ? cell.indexOf(".") : -1;
  return at < 0 ? 0 : (cell as string).length - at;
}

/** Spaces, as wide as what a number lacks of the longest fraction of its column. */
export function fractionSpace(cell: Cell, digits: number): string {
  const own = fraction(cell);
  return `${own === 0 && digits > 0 ? "\u2008" : ""}${"\u2007".repeat(Math.max(0, digits - Math.max(1, own)))}`;
}

/** What a cell is as exact text: for copying. A cut text has its beginning only. */
export function exact(cell: Cell): string {
  if (cell === null) return "NULL";
  return typeof cell === "string" ? cell : cell.cut;
}

/** One line of a text: line ends and tabs are shown as signs. */
export function oneLine(text: string): string {
  return text.replaceAll("\r\n", " ⏎ ").replaceAll("\n", " ⏎ ").replaceAll("\t", " ⇥ ");
}
