/** What of a grid is seen: follows the scrolling and the size of an element, and scrolls it. */
import { batch, signal } from "@preact/signals";
import { isStuck, revealed, rowsSeen, type Scrolled, scaleOf, scrolled, settled, type Span } from "./virtual";

export const ROW = 24;
const MORE = 8; // rows drawn above and below the window
const STEP = 4; // rows: so far is scrolled before others are drawn
export const SIDE = 64; // px: the same for columns
const REST = 150; // ms without scrolling

export class Viewport {
  readonly rows = signal<Span>({ first: 0, end: 0 }); // drawn
  readonly shift = signal(0); // px that the content is further than the scroll bar
  readonly left = signal(0);
  readonly width = signal(0);
  readonly height = signal(0); // of the rows, without the headers
  private element: HTMLElement | null = null;
  private now: Scrolled = { top: 0, at: 0 };
  private count = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly head: number) {}

  /** Follow an element; returns what ends it. */
  attach(element: HTMLElement): () => void {
    this.element = element;
    const measure = (): void => {
      batch(() => {
        this.width.value = element.clientWidth;
        this.height.value = Math.max(0, element.clientHeight - this.head);
        this.show();
      });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      observer.disconnect();
      if (this.timer !== null) clearTimeout(this.timer);
      this.element = null;
    };
  }

  /** The number of rows changed; what is seen stays as far as there are rows. */
  resize(count: number): void {
    if (count === this.count) return;
    this.count = count;
    const { top, at } = this.now;
    this.place(settled(this.scale, top === 0 ? { top: 0, at: 0 } : { top, at }));
  }

  get seen(): Span {
    return rowsSeen(this.scale, this.now.at, ROW, this.count);
  }

  get page(): number {
    return Math.max(1, Math.floor(this.height.peek() / ROW) - 1);
  }

  onScroll(): void {
    const { element } = this;
    if (element === null) return;
    this.now = scrolled(this.scale, this.now, element.scrollTop);
    if (isStuck(this.scale, this.now)) this.place(settled(this.scale, this.now));
    this.show();
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => this.place(settled(this.scale, this.now)), REST);
  }

  reveal(row: number): void {
    const at = revealed(this.scale, this.now.at, row * ROW, ROW);
    if (at !== this.now.at) this.place(settled(this.scale, { ...this.now, at }));
  }

  /** Scroll sideways so that a part of the row is seen right of the pinned columns. */
  revealSide(begin: number, width: number, pinned: number): void {
    const { element } = this;
    if (element === null) return;
    const room = element.clientWidth - pinned;
    if (begin < element.scrollLeft) element.scrollLeft = begin;
    else if (begin + width > element.scrollLeft + room) element.scrollLeft = Math.min(begin, begin + width - room);
    this.show();
  }

  toTop(): void {
    this.place({ top: 0, at: 0 });
  }

  private get scale(): ReturnType<typeof scaleOf> {
    return scaleOf(this.count * ROW, this.height.peek());
  }

  private place(to: Scrolled): void {
    const { element } = this;
    this.now = to;
    if (element !== null && Math.abs(element.scrollTop - to.top) >= 1) {
      element.scrollTop = to.top;
      this.now = { top: element.scrollTop, at: to.at };
    }
    this.show();
  }

  private show(): void {
    const { first, end } = rowsSeen(this.scale, this.now.at, ROW, this.count, MORE);
    const drawn = { first: Math.floor(first / STEP) * STEP, end: Math.min(this.count, Math.ceil(end / STEP) * STEP) };
    const before = this.rows.peek();
    batch(() => {
      if (drawn.first !== before.first || drawn.end !== before.end) this.rows.value = drawn;
      this.shift.value = this.now.at - this.now.top;
      this.left.value = Math.floor((this.element?.scrollLeft ?? 0) / SIDE) * SIDE;
    });
  }
}
