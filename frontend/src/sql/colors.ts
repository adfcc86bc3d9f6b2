/** Colours of charts that stay with a value as long as the page is open. */

export const SERIES = 8; // --sx-chart-1 … of theme.css
const OTHER = new Set(["other", "Other", "NULL"]);

/** Gives each value of a column a colour of its own, in sorted order; a value keeps the colour that it has. */
export class Colors {
  private readonly slots = new Map<string, Map<string, number>>();

  /** The colours of `values` of a column, as CSS. */
  of(column: string, values: readonly string[]): string[] {
    const slots = this.slots.get(column) ?? new Map<string, number>();
    this.slots.set(column, slots);
    const named = values.filter((each) => !OTHER.has(each));
    const used = new Set(named.flatMap((each) => slots.get(each) ?? []));
    for (const value of [...named].sort()) {
      if (slots.has(value)) continue;
      const slot = free(used, slots.size);
      slots.set(value, slot);
      used.add(slot);
    }
    return values.map((each) =>
      OTHER.has(each) ? "var(--sx-chart-other)" : `var(--sx-chart-${slots.get(each)! + 1})`,
    );
  }
}

/** The first slot that no value of this chart has; the next in turn when all are taken. */
function free(used: ReadonlySet<number>, turn: number): number {
  for (let slot = 0; slot < SERIES; slot++) if (!used.has(slot)) return slot;
  return turn % SERIES;
}
