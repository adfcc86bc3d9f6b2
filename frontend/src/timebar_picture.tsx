/** What stays while handles move: rows over time, marks of commits, savepoints, and the texts of the axis. */
import type { View } from "./axis_view";
import { plural, px, short, shorten } from "./format";
import { Mark, mostNotable } from "./kinds";
import type { Versions } from "./protocol";
import { areas, bins, marked, middle, numbered, whens } from "./timebar_scale";

/** The rows of the picture from above: flags, area, marks, numbers, dates. */
export const TOP = 18;
export const AREA = 30;
export const MARKS = 14;
export const NUMBERS = 20;
export const DATES = 14;
export const BASE = TOP + AREA; // where the axis is
export const HEIGHT = BASE + MARKS + NUMBERS + DATES;
export const MARK_ROOM = 13; // narrower versions share a mark, and can be zoomed
const LETTER = 6.6;
const LEAST_NAME = 4; // letters of a savepoint's name; with room for fewer there is the flag alone

interface Parts { versions: Versions; view: View; width: number }

export function TimePicture({ versions, view, width }: Parts) {
  const { most, least } = areas(versions.rows, view, width, AREA);
  return (
    <svg class="sx-time-picture" width={width} height={HEIGHT} aria-hidden="true" focusable="false">
      <g transform={`translate(0 ${TOP})`}>
        <path class="sx-time-most" d={most} />
        {least !== most && <path class="sx-time-least" d={least} />}
      </g>
      <line class="sx-time-axis" x1={0} x2={width} y1={BASE + 0.5} y2={BASE + 0.5} />
      <Flags versions={versions} view={view} width={width} />
      {marked(view, width, MARK_ROOM, versions.number.length).map((bin) => (
        <Mark
          key={bin.from} family={mostNotable(versions.kind.slice(bin.from, bin.to))} x={Math.round(bin.x)}
          y={BASE + MARKS / 2 + 1}
        />
      ))}
      {whens(view, width, versions.committed).map((each) => (
        <text key={each.x} class="sx-time-when" x={each.x} y={HEIGHT - 4} text-anchor="middle">{each.text}</text>
      ))}
    </svg>
  );
}

/** The numbers of versions that no pill covers. */
export function Numbers({ versions, view, width, covered }: Parts & { covered: { x: number; half: number }[] }) {
  const isFree = (at: number, text: string): boolean =>
    covered.every(({ x, half }) => Math.abs(x - at) >= half + (text.length * LETTER) / 2 + 2);
  return (
    <svg class="sx-time-picture" width={width} height={HEIGHT} aria-hidden="true" focusable="false">
      {numbered(view, width, versions.number)
        .filter(({ index, x }) => isFree(x, `${versions.number[index]}`))
        .map(({ index, x }) => (
          <text key={index} class="sx-time-number" x={x} y={BASE + MARKS + 14} text-anchor="middle">
            {versions.number[index]}
          </text>
        ))}
    </svg>
  );
}

/** The area once more, in the accent; what is not selected of it is cut off by the caller. */
export function LitArea({ versions, view, width }: Parts) {
  const { most } = areas(versions.rows, view, width, AREA);
  return <path class="sx-time-lit-area" d={most} transform={`translate(0 ${TOP})`} />;
}

function Flags({ versions, view, width }: Parts) {
  let free = -Infinity; // where the last name ends
  const flags = bins(view, width, MARK_ROOM, versions.number.length).flatMap((bin) => {
    const held: { index: number; name: string }[] = [];
    for (let index = bin.from; index < bin.to; index++) {
      for (const name of versions.savepoints[String(versions.number[index])] ?? []) held.push({ index, name });
    }
    const [first] = held;
    if (first === undefined) return [];
    const x = Math.round(middle(view, width, first.index)) + 0.5;
    const all = held.length > 1 ? `${first.name} +${held.length - 1}` : first.name;
    const room = Math.floor((width - x - 12) / LETTER);
    const isLeft = room < all.length && x - Math.max(0, free) > all.length * LETTER;
    const text = isLeft ? all : x > free && room >= LEAST_NAME ? shorten(all, room) : "";
    if (text) free = x + 20 + (isLeft ? 0 : text.length * LETTER);
    return [{ x, text, isLeft }];
  });
  return (
    <>
      {flags.map(({ x, text, isLeft }) => (
        <g key={x} class="sx-time-flag">
          <line x1={x} x2={x} y1={4} y2={BASE} />
          <path d={`M${x} 4l8 4l-8 4Z`} />
          {text && <text x={isLeft ? x - 5 : x + 11} y={12} text-anchor={isLeft ? "end" : "start"}>{text}</text>}
        </g>
      ))}
    </>
  );
}

/** The scale of rows, left of the picture. */
export function RowScale({ rows }: { rows: readonly number[] }) {
  const most = rows.reduce((found, each) => Math.max(found, each), 0);
  return (
    <div class="sx-time-scale" title={`At most ${plural(most, "row")}`}>
      {most > 0 && <span style={{ top: px(TOP - 8) }}>{short(most)} {most === 1 ? "row" : "rows"}</span>}
      <span style={{ top: px(BASE - 12) }}>0</span>
    </div>
  );
}
