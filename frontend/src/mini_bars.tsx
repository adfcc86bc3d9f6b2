/** Small bars of a column: one version alone, or two over each other. */
import { count } from "./format";
import "./mini_bars.css";

interface MiniBarsParts {
  label: string; // the accessible name
  bars: { label: string; value: number; before?: number }[];
  height: number;
}

const LEAST = 2; // pixels of a bar that is not 0
const WIDTH = 160; // of the view box: the picture is as wide as its place

export function MiniBars({ label, bars, height }: MiniBarsParts) {
  const most = bars.reduce((sum, each) => Math.max(sum, each.value, each.before ?? 0), 0) || 1;
  const step = WIDTH / Math.max(1, bars.length);
  const gap = step > 4 ? 1 : 0;
  const tall = (value: number): number => (value === 0 ? 0 : Math.max(LEAST, ((height - 2) * value) / most));
  return (
    <svg
      class="sx-mini" role="img" aria-label={label} viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none"
      height={height}
    >
      {bars.map((each, index) => (
        <g key={each.label}>
          <title>{said(each)}</title>
          <rect class="sx-mini-hit" x={index * step} y={0} width={step} height={height} />
          <rect
            class="sx-mini-bar" x={index * step} y={height - tall(each.value)} width={step - gap}
            height={tall(each.value)}
          />
          {each.before !== undefined && each.before > 0 && (
            <rect
              class="sx-mini-before" x={index * step} y={height - tall(each.before)} width={step - gap} height={1.5}
            />
          )}
        </g>
      ))}
    </svg>
  );
}

function said({ label, value, before }: MiniBarsParts["bars"][number]): string {
  return before === undefined ? `${label}: ${count(value)}` : `${label}: ${count(before)} → ${count(value)}`;
}
