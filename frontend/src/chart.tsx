/** The chart of an answer: a picker for what is drawn, and the picture by Observable Plot. */
import * as Plot from "@observablehq/plot";
import { useLayoutEffect, useRef } from "preact/hooks";
import "./chart.css";
import { useSize } from "./elements";
import type { ChartAnswer, Mark } from "./protocol";
import { isLying, plotOptions, titled } from "./sql/plot_options";
import type { ChartChoice, ShownAnswer } from "./sql/state";
import { Button, Chip, Failure, Skeleton } from "./states";

const MARKS: [Mark, string][] = [
  ["bar", "Bars"],
  ["line", "Line"],
  ["area", "Area"],
  ["dot", "Dots"],
  ["hist", "Histogram"],
];

export function ChartView({ shown }: { shown: ShownAnswer }) {
  const { value, loading, failure } = shown.chart.value;
  return (
    <div class="sx-chart" role="group" aria-label="Chart of the answer" tabindex={0} aria-busy={loading}>
      {failure && <Failure failure={failure} />}
      {!failure && value === null && <Skeleton height="180px" label="The chart is drawn" />}
      {!failure && value !== null && <Picture answer={value} shown={shown} />}
    </div>
  );
}

export function ChartPicker({ shown }: { shown: ShownAnswer }) {
  const drawn = shown.chart.value.value;
  const choice = shown.choice.value;
  const choose = (part: Partial<ChartChoice>): void => void shown.draw({ ...choice, ...part });
  const names = shown.columns.map((each): [string, string] => [each.name, each.name]);
  const mark = MARKS.find(([name]) => name === drawn?.mark)?.[1];
  const isHist = (choice.mark || drawn?.mark) === "hist";
  return (
    <div class="sx-chart-picker">
      <Pick
        name="Type" value={choice.mark} options={MARKS} auto={mark}
        onPick={(each) => choose({ mark: each as Mark | "" })}
      />
      <Pick name="X" value={choice.x} options={names} auto={drawn?.x.label} onPick={(x) => choose({ x })} />
      {!isHist && (
        <Pick name="Y" value={choice.y} options={names} auto={drawn?.y.label} onPick={(y) => choose({ y })} />
      )}
      {(names.length > 2 || choice.color !== "") && (
        <Pick
          name="Series" value={choice.color} options={names} auto={drawn?.color?.label ?? "none"}
          onPick={(color) => choose({ color })}
        />
      )}
    </div>
  );
}

interface PickParts {
  name: string;
  value: string;
  options: [string, string][];
  auto: string | undefined; // what is drawn where nothing is chosen
  onPick: (value: string) => void;
}

function Pick({ name, value, options, auto, onPick }: PickParts) {
  return (
    <label class="sx-chart-pick">
      <span class="sx-muted">{name}</span>
      <select class="sx-select" value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        <option value="">{auto === undefined ? "Automatic" : `Auto (${auto})`}</option>
        {options.map(([key, label]) => <option key={key} value={key}>{label}</option>)}
      </select>
    </label>
  );
}

function Picture({ answer, shown }: { answer: ChartAnswer; shown: ShownAnswer }) {
  const place = useRef<HTMLDivElement>(null);
  const { width, height } = useSize(place);
  const colors = answer.color ? shown.colors.of(answer.color.label, answer.color.order) : [];
  useLayoutEffect(() => {
    const isDrawn = width > 0 && answer.points.length > 0;
    const drawing = isDrawn ? Plot.plot(plotOptions(answer, colors, { width, height })) : null;
    // a group of marks has no role that may be named; the whole picture has a name
    drawing?.querySelectorAll("g[aria-label]").forEach((group) => group.removeAttribute("aria-label"));
    place.current?.replaceChildren(...(drawing ? [drawing] : []));
  }, [answer, width, height]);
  const axis = answer.title.toLowerCase().includes(answer.y.label.toLowerCase()) ? "" : titled(answer.y.label);
  return (
    <figure class="sx-chart-figure">
      <figcaption>
        <h3 class="sx-title">{titled(answer.title)}</h3>
        {axis && <p class="sx-muted sx-chart-axes">{axis}</p>}
        {answer.color && (
          <ul class="sx-chart-legend" aria-label={answer.color.label}>
            {answer.color.order.map((each, index) => (
              <li key={each}>
                <span class="sx-chart-swatch" style={{ background: colors[index] }} />
                {each}
              </li>
            ))}
          </ul>
        )}
      </figcaption>
      <div ref={place} class={`sx-chart-place${isLying(answer, width) ? " sx-chart-lying" : ""}`} />
      {answer.points.length === 0 && <p class="sx-muted">There is nothing to draw: the answer has no rows.</p>}
      {answer.notes.length > 0 && (
        <div class="sx-chart-notes">{answer.notes.map((each) => <Note key={each} text={each} shown={shown} />)}</div>
      )}
    </figure>
  );
}

/** What is left out; one column can be drawn instead. */
function Note({ text, shown }: { text: string; shown: ShownAnswer }) {
  const left = shown.columns.find(({ name }) => text === `not drawn: ${name}`)?.name;
  if (left === undefined) return <Chip>{titled(text)}</Chip>;
  return <Button onClick={() => void shown.draw({ ...shown.choice.peek(), y: left })}>Show {left}</Button>;
}
