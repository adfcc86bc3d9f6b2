/** Statements that ran in this page, and going through them as a shell does. */

const MOST = 100;

/** `statements` with one more: the newest first, each once. */
export function remembered(statements: readonly string[], statement: string): string[] {
  const text = statement.trim();
  if (text === "") return [...statements];
  return [text, ...statements.filter((each) => each !== text)].slice(0, MOST);
}

/** Where one is while going through: -1 is the draft, 0 the newest statement. */
export interface Place {
  at: number;
  draft: string; // what was being written
}

export const AT_DRAFT: Place = { at: -1, draft: "" };

/** One step to older (1) or newer (-1) statements: the place and its text; null where there is none. */
export function stepped(
  statements: readonly string[],
  place: Place,
  text: string,
  by: 1 | -1,
): { place: Place; text: string } | null {
  const draft = place.at === -1 ? text : place.draft;
  const same = place.at === -1 && by === 1 && statements[0] === text.trim(); // what just ran is on the screen
  const at = place.at + (same ? 2 : by);
  if (at < -1 || at >= statements.length) return null;
  return { place: { at, draft }, text: at === -1 ? draft : statements[at]! };
}

/** A statement on one line, for the menu. */
export function oneLine(statement: string): string {
  return statement.replace(/\s+/g, " ").trim();
}
