/** Colours of charts that stay with a value as long as the page is open. */

const SERIES = 8; // --sx-chart-1 … of theme.css
const OTHER = new Set(["other", "Other", "NULL"]);

/** Gives each value of a column a colour of its own, in sorted order; a value keeps the colour that it has. */
export class Colors {
  private readonly slots = new Map<string, number>(); // by column and value

  /** The colours of `values` of a column, as CSS. */
  of(column: string, values: readonly string[]): string[] {
    const key = (value: string): string => `${column}\n${value}`;
    const named = values.filter((each) => !OTHER.has(each)).sort();
    const used = new Set(named.map((each) => this.slots.get(key(each))));
    for (const each of named.filter((name) => !this.slots.has(key(name)))) {
      const free = Array.from({ length: SERIES }, (_, slot) => slot).find((slot) => !used.has(slot));
      const slot = free ?? this.slots.size % SERIES;
      this.slots.set(key(each), slot);
      used.add(slot);
    }
    return values.map((each) => `var(--sx-chart-${OTHER.has(each) ? "other" : this.slots.get(key(each))! + 1})`);
  }
}
