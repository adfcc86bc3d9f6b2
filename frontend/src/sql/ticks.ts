/** Ticks of axes that people read: dates that do not collide, numbers in groups. */
import { clock, count, DAY, day, HOUR, MINUTE, MONTHS, short } from "../format";

const STEPS = [
  ...[1, 5, 15, 30].map((each) => each * MINUTE),
  ...[1, 3, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 7, 14].map((each) => each * DAY),
];
const MONTH_STEPS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
const ROOM = 72; // pixels for one tick

export interface TimeTicks { at: number[]; label: (time: number) => string }

/** Times between two, at whole minutes, hours, days, months or years (UTC), with at least `ROOM` pixels each. */
export function timeTicks(from: number, to: number, width: number): TimeTicks {
  const most = Math.max(2, Math.floor(width / ROOM));
  const step = STEPS.find((each) => (to - from) / each <= most);
  if (step !== undefined) return evenTicks(from, to, step);
  const [low, high] = [month(from), month(to)];
  const months = MONTH_STEPS.find((each) => (high - low) / each <= most) ?? MONTH_STEPS.at(-1)!;
  const at: number[] = [];
  for (let each = Math.ceil(low / months) * months; each <= high; each += months) {
    const time = ofMonth(each);
    if (time >= from && time <= to) at.push(time);
  }
  return { at, label: (time) => monthLabel(time, at[0]!, months) };
}

function evenTicks(from: number, to: number, step: number): TimeTicks {
  const origin = step >= 7 * DAY ? 4 * DAY : 0; // weeks begin on Monday; 1970-01-05 was one
  const at: number[] = [];
  for (let time = Math.ceil((from - origin) / step) * step + origin; time <= to; time += step) at.push(time);
  return { at, label: step >= DAY ? (time) => dayLabel(time, at[0]!) : (time) => clockLabel(time, at[0]!) };
}

/** `5 Aug`, and the year at the first tick and where it changes. */
function dayLabel(time: number, first: number): string {
  const text = day(time, time);
  return time === first ? `${text}\n${new Date(time).getUTCFullYear()}` : text;
}

/** `10:00`, and the day at the first tick and at midnight. */
function clockLabel(time: number, first: number): string {
  const text = clock(time);
  return time === first || text === "00:00" ? `${text}\n${day(time, time)}` : text;
}

/** `Aug`, and the year at the first tick and in January; only the year when a step is whole years. */
function monthLabel(time: number, first: number, months: number): string {
  const date = new Date(time);
  if (months >= 12) return String(date.getUTCFullYear());
  const text = MONTHS[date.getUTCMonth()]!;
  return time === first || date.getUTCMonth() === 0 ? `${text}\n${date.getUTCFullYear()}` : text;
}

function month(time: number): number {
  const date = new Date(time);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

function ofMonth(month: number): number {
  return Date.UTC(Math.floor(month / 12), month % 12, 1);
}

/** A number on an axis: grouped, and from a million on in short. */
export function numberTick(value: number): string {
  if (Math.abs(value) >= 1e6) return short(value);
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(6)));
}
