/** Statements that ran in this page. */

const MOST = 100;

/** `statements` with one more: the newest first, each once. */
export function remembered(statements: readonly string[], statement: string): string[] {
  const text = statement.trim();
  if (text === "") return [...statements];
  return [text, ...statements.filter((each) => each !== text)].slice(0, MOST);
}

/** A statement on one line, for the menu. */
export function oneLine(statement: string): string {
  return statement.replace(/\s+/g, " ").trim();
}
