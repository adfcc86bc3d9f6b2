/** What the rail lists: names that match, why they do, and which of them are in view. */
import type { Found, TableDetails } from "./protocol";

export interface Listed {
  name: string;
  reason: string; // "row key carrier"; empty where the name matches
}

/** Names that hold the text come at once, those that the kernel found by column or comment when its answer is there. */
export function listed(names: readonly string[], text: string, found: readonly Found[] | null): Listed[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return names.map((name) => ({ name, reason: "" }));
  const byName = names.filter((name) => name.toLowerCase().includes(wanted)).map((name) => ({ name, reason: "" }));
  if (found === null) return byName;
  const known = new Set(byName.map((each) => each.name));
  return [...byName, ...found.filter((each) => !known.has(each.name))];
}

/** The first and, not included, the last row in view, with some more on both sides. */
export function inView(top: number, height: number, row: number, count: number, more: number): [number, number] {
  const first = Math.max(0, Math.floor(top / row) - more);
  return [Math.min(first, count), Math.min(count, Math.ceil((top + height) / row) + more)];
}

/** Where to scroll so that a row is in view; the same place when it is. */
export function scrollFor(index: number, top: number, height: number, row: number): number {
  if (index * row < top) return index * row;
  if ((index + 1) * row > top + height) return (index + 1) * row - height;
  return top;
}

/** The points of a spark line of rows, from the lower left to the right; empty for fewer than two. */
export function sparkPath(growth: readonly number[], width: number, height: number): string {
  if (growth.length < 2) return "";
  const most = Math.max(1, ...growth);
  const points = growth.map((rows, i) => {
    const x = (i / (growth.length - 1)) * width;
    return `${x.toFixed(1)} ${(height - (rows / most) * height).toFixed(1)}`;
  });
  return `M${points.join("L")}`;
}

/** What is due, for a chip: one thing by its name, more by their number. */
export function dueText(due: readonly string[]): string {
  const [first] = due;
  if (first === undefined) return "";
  return due.length === 1 ? first : `${due.length} due`;
}

/** Names in view whose details are not known. */
export function missing(names: readonly string[], known: ReadonlyMap<string, TableDetails>): string[] {
  return names.filter((name) => !known.has(name));
}
