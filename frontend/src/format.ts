/** Numbers, sizes, times and short texts as every part of the page writes them. */

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const STEPS: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
export const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `336776` as `336,776`. */
export function count(value: number): string {
  return GROUPED.format(value);
}

/** `28135` as `+28,135`, `-4` as `−4` (a minus sign, as wide as the plus), `0` as `0`. */
export function signed(value: number): string {
  if (value === 0) return "0";
  return value > 0 ? `+${count(value)}` : `−${count(-value)}`;
}

/** `1 row`, `2 rows`, `1,204 files`; `many` where an "s" is not enough. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** For narrow places: `336776` as `337 k`, `10234567` as `10.2 M`. */
export function short(value: number): string {
  const size = Math.abs(value);
  const step = STEPS.find(([unit]) => size >= Math.max(1000, unit * 0.9995)); // 999,960 is 1.0 M and not 1,000 k
  if (step === undefined) return withSign(value, 0);
  const [unit, letter] = step;
  const most = unit === 1e3 ? 9.95 : 99.95; // with one decimal below this
  return `${withSign(value / unit, size / unit < most ? 1 : 0)} ${letter}`;
}

function withSign(value: number, digits: number): string {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** `1258291` as `1.2 MiB`; whole numbers of bytes and from 100 on. */
export function bytes(value: number): string {
  let [size, unit] = [value, 0];
  while (size >= 1023.5 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 99.95 ? count(Math.round(size)) : size.toFixed(1)} ${UNITS[unit]}`;
}

/** A share: `12 %`, `0.4 %`, `< 0.1 %`, `> 99.9 %`; 0 and 100 only where they are exact. */
export function percent(part: number, of: number): string {
  if (of === 0) return "0 %";
  const share = (100 * part) / of;
  if (share === 0 || share === 100) return `${share} %`;
  if (share < 0.1) return "< 0.1 %";
  if (share > 99.9) return "> 99.9 %";
  return `${share < 1 || share > 99 ? share.toFixed(1) : share.toFixed(0)} %`;
}

/** `2.4×`, `12×`. */
export function times(value: number): string {
  return `${value >= 9.95 ? count(Math.round(value)) : value.toFixed(1)}×`;
}

/** How long something took: `0.18 s`, `3.4 s`, `12 s`, `2 min 5 s`. */
export function seconds(value: number): string {
  if (value < 1) return `${value.toFixed(2)} s`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** `2026-11-01 10:02 UTC`. */
export function utc(milliseconds: number): string {
  return `${iso(milliseconds).slice(0, 16).replace("T", " ")} UTC`;
}

/** `2026-11-01 10:02:33 UTC`, for what appears on hover. */
export function utcExact(milliseconds: number): string {
  return `${iso(milliseconds).slice(0, 19).replace("T", " ")} UTC`;
}

/** `1 Nov 2026`, or `1 Nov` for a day of the year of `now`. */
export function day(milliseconds: number, now: number | null = null): string {
  const at = new Date(milliseconds);
  const text = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
  const year = at.getUTCFullYear();
  return now !== null && new Date(now).getUTCFullYear() === year ? text : `${text} ${year}`;
}

/** `10:02`, in UTC. */
export function clock(milliseconds: number): string {
  return iso(milliseconds).slice(11, 16);
}

/** `1 Nov 10:02`, in UTC, with the year where it is not that of `now`. Put `utcAgo` on hover. */
export function moment(milliseconds: number, now: number = Date.now()): string {
  return `${day(milliseconds, now)} ${clock(milliseconds)}`;
}

/** `2026-11-01 10:02:33 UTC, 2 min ago`. */
export function utcAgo(milliseconds: number, now: number = Date.now()): string {
  return `${utcExact(milliseconds)}, ${ago(milliseconds, now)}`;
}

/** `just now`, `2 min ago`, `3 h ago`, `yesterday`, `5 days ago`; the date from 30 days on. */
export function ago(milliseconds: number, now: number = Date.now()): string {
  const passed = now - milliseconds;
  if (passed < MINUTE) return "just now"; // also for a clock that runs ahead of ours
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  const days = Math.floor(passed / DAY);
  if (days < 30) return days === 1 ? "yesterday" : `${days} days ago`;
  return day(milliseconds, now);
}

/** `text`, cut to `length` characters with an ellipsis. */
export function shorten(text: string, length: number): string {
  const characters = [...text];
  return characters.length <= length ? text : `${characters.slice(0, Math.max(0, length - 1)).join("")}…`;
}

/** `snake_case` and `lower case` names of the kernel as a label: `Bulk import`. */
export function label(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A length for a style: Preact adds no unit to numbers. */
export function px(value: number): string {
  return `${value}px`;
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
