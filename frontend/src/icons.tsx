/** The icons of the page, drawn on a grid of 16 px with lines of 1.5 px in the colour of the text. */

const PATHS = {
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",
  refresh: "M13.5 8a5.5 5.5 0 1 1-1.6-3.9L13.5 5.7M13.5 2v3.7H9.8",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z",
  check: "M3 8.5l3.2 3.2L13 4.8",
  insert: "M2.5 2.5h11v5h-11ZM8 9.5v5M5.5 12h5",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4l-4 4 4 4",
  up: "M4 10l4-4 4 4",
  close: "M4 4l8 8M12 4l-8 8",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  full: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  leave: "M6 2.5V6H2.5M13.5 6H10V2.5M10 13.5V10h3.5M2.5 10H6v3.5",
  compare: "M.8 8h1.4M6.2 8h3.6M13.8 8h1.4M4.2 6a2 2 0 1 0 0 4a2 2 0 0 0 0-4ZM11.8 6a2 2 0 1 0 0 4a2 2 0 0 0 0-4Z",
  back: "M3 6.5h6.5a3.5 3.5 0 1 1 0 7H6M3 6.5 6 3.5M3 6.5l3 3",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11ZM8 5v3.2l2 1.6",
  flag: "M4 14V2.5M4 3h8l-2 2.8L12 8.5H4",
  warning: "M8 2.5 14.5 13.5h-13ZM8 6.8v3M8 11.8h.01",
  table: "M2.5 3h11v10h-11ZM2.5 6.5h11M6.5 6.5V13",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5Z",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2 8h12M2 8l3-3M2 8l3 3M14 8l-3-3M14 8l-3 3",
  key: "M10.2 9.3a3.6 3.6 0 1 0-3.5-3.5L2.5 10v3.5H6V12h1.5v-1.5h1.2ZM11 5h.01",
  sort: "M4.5 3v10M4.5 13 2 10.5M4.5 13 7 10.5M9.5 4H14M9.5 8h3.5M9.5 12h2.5",
  pin: "M5.5 2.5h5M6.5 2.5v4l-2 2.5h7l-2-2.5v-4M8 9v5",
  play: "M5 3l8 5-8 5Z",
  stop: "M4 4h8v8H4Z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="sx-icon" width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
