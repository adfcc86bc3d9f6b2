/** A chart for Observable Plot: the points of the kernel with the look of the page. */
import * as Plot from "@observablehq/plot";
import { count, plural, utc } from "../format";
import type { ChartAnswer, ChartPoint as Point } from "../protocol";
import { numberTick, timeTicks } from "./ticks";

const LETTER = 6.6; // pixels of a digit at 12 px
const BAR_HEIGHT = 24;
const LINE = "var(--sx-border)";
const PLAIN = "var(--sx-chart-1)";
const QUIET = "var(--sx-muted)";

/** The first letter large, as in a sentence. */
export function titled(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The points of a stacked area, with 0 where a series has no point: else its neighbours would slide together. */
export function filled(points: readonly Point[], order: readonly string[]): Point[] {
  const found = new Map(points.map((each) => [`${each.x} ${each.color ?? ""}`, each]));
  const xs = [...new Set(points.map((each) => each.x))].sort((a, b) => (a < b ? -1 : 1));
  return order.flatMap((color) => xs.map((x) => found.get(`${x} ${color}`) ?? { x, y: 0, color }));
}

/** Whether the names of bars would collide below them: then the bars lie. */
export function isLying(answer: ChartAnswer, width: number): boolean {
  if (answer.mark !== "bar" || answer.x.kind !== "name") return false;
  const names = namesOf(answer);
  const longest = names.reduce((most, name) => Math.max(most, name.length), 0);
  return names.length * (longest * LETTER + 12) > width - 64;
}

/** What Plot draws: `colors` are those of `answer.color.order`. */
export function plotOptions(
  answer: ChartAnswer,
  colors: readonly string[],
  size: { width: number; height: number },
): Plot.PlotOptions {
  const { width } = size;
  const lying = isLying(answer, width);
  const values = answer.points.map((each) => each.y);
  const digits = Math.max(
    ...[Math.max(0, ...values), Math.min(0, ...values)].map((each) => numberTick(Math.round(each)).length),
    3,
  );
  const names = lying ? namesOf(answer) : [];
  const left = lying
    ? Math.min(width / 3, 16 + LETTER * Math.max(...names.map((each) => each.length)))
    : 20 + digits * LETTER;
  return {
    width,
    height: lying ? names.length * BAR_HEIGHT + 24 : Math.max(120, size.height),
    marginLeft: left,
    marginRight: lying ? 24 + digits * LETTER : 24,
    marginTop: lying ? 4 : 12,
    marginBottom: lying ? 8 : answer.x.kind === "time" ? 40 : 28,
    className: "sx-plot",
    ariaLabel: titled(answer.title),
    style: {
      background: "none",
      color: "var(--sx-text)",
      fontFamily: "inherit",
      fontSize: "12px",
      overflow: "visible",
    },
    x: lying ? { axis: null } : xScale(answer),
    y: lying
      ? { axis: null, domain: names }
      : { axis: null, nice: true, zero: answer.mark !== "dot" && answer.mark !== "line" },
    r: { range: [2, 10] },
    ...(answer.color ? { color: { type: "ordinal", domain: answer.color.order, range: colors } } : {}),
    marks: lying
      ? lyingMarks(answer)
      : [...frame(answer, width - left, Math.max(2, Math.floor(size.height / 44))), ...marks(answer)],
  };
}

function namesOf(answer: ChartAnswer): string[] {
  return answer.x.order ?? [...new Set(answer.points.map((each) => String(each.x)))];
}

function xScale(answer: ChartAnswer): Plot.ScaleOptions {
  if (answer.x.kind === "name")
    return { axis: null, type: answer.mark === "bar" ? "band" : "point", domain: namesOf(answer), padding: 0.2 };
  return { axis: null, type: answer.x.kind === "time" ? "utc" : "linear" };
}

/** Horizontal hairlines and the two axes, without a line of their own. */
function frame(answer: ChartAnswer, width: number, ticks: number): Plot.Markish[] {
  const grid = Plot.gridY({ stroke: LINE, strokeOpacity: 1, ticks });
  const y = Plot.axisY({
    tickSize: 0,
    tickPadding: 8,
    ticks,
    tickFormat: (value) => numberTick(Number(value)),
    label: null,
    fill: QUIET,
  });
  const look = { tickSize: 0, tickPadding: 8, label: null, fill: QUIET };
  if (answer.x.kind === "name") return [grid, y, Plot.axisX({ ...look })];
  if (answer.x.kind === "number") {
    return [
      grid,
      y,
      Plot.axisX({
        ...look,
        ticks: Math.max(2, Math.floor(width / 80)),
        tickFormat: (value) => numberTick(Number(value)),
      }),
    ];
  }
  const ends = answer.points.flatMap((each) => [Number(each.x), each.x2 ?? Number(each.x)]);
  const { at, label } = timeTicks(Math.min(...ends), Math.max(...ends), width);
  return [
    grid,
    y,
    Plot.axisX(at.map((each) => new Date(each)), { ...look, tickFormat: (time) => label(Number(time)) }),
  ];
}

function marks(answer: ChartAnswer): Plot.Markish[] {
  const { points } = answer;
  const color = answer.color ? (point: Point) => point.color ?? "" : PLAIN;
  const order = answer.color ? { order: [...answer.color.order] } : {};
  const x = (point: Point) => (answer.x.kind === "time" ? new Date(point.x) : point.x);
  const x2 = (point: Point) => (answer.x.kind === "time" ? new Date(point.x2!) : point.x2);
  const common = { y: (point: Point) => point.y, title: (point: Point) => tip(answer, point), tip: TIP };
  const zero = Plot.ruleY([0], { stroke: QUIET, strokeWidth: 1 });
  switch (isStackable(answer) ? answer.mark : "line") {
    case "line": {
      const z = answer.color ? { z: color } : {};
      const spread = points.filter((each) => each.low !== undefined);
      return [
        Plot.areaY(spread, {
          x,
          y1: (each: Point) => each.low,
          y2: (each: Point) => each.high,
          fill: color,
          fillOpacity: 0.15,
          ...z,
        }),
        Plot.lineY(points, { ...common, x, stroke: color, strokeWidth: 2, ...z }),
        Plot.dot(points.length <= 40 ? points : [], { x, y: common.y, fill: color, r: 2.5 }),
      ];
    }
    case "area": {
      const stacked = answer.color ? filled(points, answer.color.order) : points;
      const line = Plot.lineY(answer.color ? [] : points, { x, y: common.y, stroke: PLAIN, strokeWidth: 2 });
      return [
        Plot.areaY(stacked, { ...common, x, fill: color, fillOpacity: answer.color ? 0.9 : 0.3, ...order }),
        line,
        zero,
      ];
    }
    case "dot": {
      const many = points.some((each) => each.rows !== undefined);
      const size = many ? { r: (each: Point) => each.rows ?? 1 } : { r: 3 };
      return [Plot.dot(points, { ...common, x, fill: color, fillOpacity: 0.6, ...size })];
    }
    default: {
      const bar = { ...common, fill: color, ...order };
      if (answer.x.kind === "name") return [Plot.barY(points, { ...bar, x: (point: Point) => String(point.x) }), zero];
      return [Plot.rectY(points, { ...bar, x1: x, x2, insetLeft: 0.5, insetRight: 0.5 }), zero];
    }
  }
}

/** Areas over each other add up; with values below 0 they would not, and are lines. */
function isStackable(answer: ChartAnswer): boolean {
  return (
    answer.mark !== "line" &&
    !(answer.mark === "area" && answer.color !== null && answer.points.some((each) => each.y < 0))
  );
}

/** Bars that lie have their names before them and their numbers after them; they need no axis. */
function lyingMarks(answer: ChartAnswer): Plot.Markish[] {
  const y = (point: Point) => String(point.x);
  const color = answer.color ? (point: Point) => point.color ?? "" : PLAIN;
  const order = answer.color ? { order: [...answer.color.order] } : {};
  const sums = new Map<string, number>();
  for (const point of answer.points) sums.set(y(point), (sums.get(y(point)) ?? 0) + point.y);
  return [
    Plot.axisY({ tickSize: 0, tickPadding: 8, label: null, fill: "var(--sx-text)" }),
    Plot.barX(answer.points, {
      y,
      x: (point: Point) => point.y,
      fill: color,
      insetTop: 3,
      insetBottom: 3,
      title: (point: Point) => tip(answer, point),
      tip: TIP,
      ...order,
    }),
    Plot.text([...sums], {
      y: (each) => each[0],
      x: (each) => Math.max(0, each[1]),
      text: (each) => numberTick(each[1]),
      textAnchor: "start",
      dx: 6,
      fill: QUIET,
      fontVariant: "tabular-nums",
    }),
    Plot.ruleX([0], { stroke: QUIET }),
  ];
}

const TIP = { fill: "var(--sx-raised)", stroke: LINE, pathFilter: "none", textPadding: 8 } as const;

export function tip(answer: ChartAnswer, point: Point): string {
  const place = (x: string | number): string => {
    if (answer.x.kind === "time") return utc(Number(x)).replace(" 00:00 UTC", "");
    return answer.x.kind === "number" ? String(x) : x === "" ? "''" : String(x);
  };
  const where = point.x2 === undefined ? place(point.x) : `${place(point.x)} to ${place(point.x2)}`;
  const value = Number.isInteger(point.y) ? count(point.y) : String(Number(point.y.toPrecision(6)));
  const color = answer.color && point.color !== undefined ? [`${answer.color.label}: ${point.color}`] : [];
  const rows = point.rows === undefined ? [] : [plural(point.rows, "row")];
  return [`${answer.x.label}: ${where}`, ...color, `${answer.y.label}: ${value}`, ...rows].join("\n");
}
