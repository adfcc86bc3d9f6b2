/** Kinds of commits: the family of each, and its mark: a colour with a shape, so that neither is needed alone. */
export type Family = "added" | "changed" | "removed" | "structure" | "upkeep" | "rollback";

const FAMILIES: Record<string, Family> = {
  ingest: "added",
  bulk_import: "added",
  add_files: "added",
  update: "changed",
  merge: "changed",
  upsert: "changed",
  overwrite: "changed",
  delete: "removed",
  create: "structure",
  alter: "structure",
  migrate: "structure",
  split: "upkeep",
  compact: "upkeep",
  expire: "upkeep",
  collect_garbage: "upkeep",
  rollback: "rollback",
};

/** What one wants to see first where several commits share a mark. */
const NOTABLE: Family[] = ["rollback", "removed", "structure", "changed", "added", "upkeep"];

export function familyOf(kind: string): Family {
  return FAMILIES[kind.replaceAll("-", "_").replaceAll(" ", "_")] ?? "upkeep";
}

/** The family that stands for several commits. */
export function mostNotable(kinds: readonly string[]): Family {
  const families = new Set(kinds.map(familyOf));
  return NOTABLE.find((each) => families.has(each)) ?? "upkeep";
}

/** The token with the family's colour. */
export function familyColor(family: Family): string {
  return `var(--sx-${family})`;
}

/** The outline of a mark around (0, 0), about 10 px wide: disc, diamond, triangle down, square, ring, arrow back. */
export const MARK_PATHS: Record<Family, string> = {
  added: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
  changed: "M0 -5L5 0L0 5L-5 0Z",
  removed: "M-5 -4H5L0 5Z",
  structure: "M-4 -4H4V4H-4Z",
  upkeep: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z",
  rollback: "M4 -5V5L-5 0Z",
};

/** A mark inside an SVG; the family `upkeep` is hollow. */
export function Mark({ family, x, y }: { family: Family; x: number; y: number }) {
  const color = familyColor(family);
  const hollow = { fill: "var(--sx-surface)", stroke: color, "stroke-width": 1.5 };
  const paint = family === "upkeep" ? hollow : { fill: color };
  return <path d={MARK_PATHS[family]} transform={`translate(${x} ${y})`} {...paint} />;
}

/** A mark beside text; the text names the kind, so the mark is hidden from readers of the screen. */
export function KindMark({ kind }: { kind: string }) {
  return (
    <svg class="sx-kind" width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true" focusable="false">
      <Mark family={familyOf(kind)} x={0} y={0} />
    </svg>
  );
}
