/** Which columns a grid shows, in which order and how wide. Pure. */

export interface ColumnLayout {
  hidden: string[];
  pinned: string[] | null; // null: the keys
  widths: Record<string, number>; // those that a user set, in px
}

export const OWN_LAYOUT: ColumnLayout = { hidden: [], pinned: null, widths: {} };
