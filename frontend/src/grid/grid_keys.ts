/** Where the arrow keys and their like lead in a grid. Pure. */

export interface Place {
  row: number;
  column: number; // of the columns that are shown
}

interface Pressed {
  key: string;
  isFar: boolean; // with Ctrl or Command
}

interface Size {
  rows: number;
  columns: number;
  page: number; // rows of a screen
}

/** The cell that a key leads to; null for other keys, and "headers" above the first row. */
export function moved(pressed: Pressed, { row, column }: Place, size: Size): Place | "headers" | null {
  const { key, isFar } = pressed;
  const { rows, columns, page } = size;
  const [lastRow, lastColumn] = [rows - 1, columns - 1];
  const places: Record<string, Place> = {
    ArrowDown: { row: isFar ? lastRow : row + 1, column },
    ArrowUp: { row: isFar ? 0 : row - 1, column },
    ArrowLeft: { row, column: isFar ? 0 : column - 1 },
    ArrowRight: { row, column: isFar ? lastColumn : column + 1 },
    PageDown: { row: row + page, column },
    PageUp: { row: row - page, column },
    Home: { row: isFar ? 0 : row, column: 0 },
    End: { row: isFar ? lastRow : row, column: lastColumn },
  };
  if (key === "ArrowUp" && row === 0) return "headers";
  const to = places[key];
  return to === undefined ? null : within(to, rows, columns);
}

export function within({ row, column }: Place, rows: number, columns: number): Place {
  return { row: clamp(row, rows - 1), column: clamp(column, columns - 1) };
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most));
}
