/** What the rail lists: names that match, why they do, and which of them are in view. */
import { label } from "./format";
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

/** The points of a spark line of rows, from the lower left to the right; empty for fewer than three, which make a line alone. */
export function sparkPath(growth: readonly number[], width: number, height: number): string {
  if (growth.length < 3) return "";
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
  return due.length === 1 ? `${label(first)} due` : `${due.length} due`;
}

/** Names in view whose details are not known. */
export function missing(names: readonly string[], known: ReadonlyMap<string, TableDetails>): string[] {
  return names.filter((name) => !known.has(name));
}
