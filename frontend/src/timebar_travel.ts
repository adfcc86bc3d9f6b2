/** The handles of the time bar while they move: what is shown follows at once, the page when the handle rests. */
import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import { clamp } from "./axis_view";
import type { Versions } from "./protocol";
import { lastAtMost } from "./sorted_numbers";
import type { Store } from "./store";

/** Handles as places on the axis. */
export interface Places { version: number; before: number | null }

interface Moving {
  index: number;
  fixed: number | null; // the other handle
}

const REST = 80; // milliseconds

export class Travel {
  readonly places: ReadonlySignal<Places>;
  private readonly moving = signal<Moving | null>(null);
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly store: Store,
    readonly versions: Versions,
  ) {
    this.places = computed(() => {
      const at = this.moving.value;
      if (at === null) {
        const before = store.before.value;
        return { version: this.indexOf(store.version.value), before: before === null ? null : this.indexOf(before) };
      }
      if (at.fixed === null) return { version: at.index, before: null };
      return { version: Math.max(at.index, at.fixed), before: Math.min(at.index, at.fixed) };
    });
  }

  get isMoving(): boolean {
    return this.moving.value !== null;
  }

  /** Take the handle that is nearest to `index`, or with `second` a second one, and bring it there. */
  grab(index: number, second: boolean): void {
    const { version, before } = this.places.peek();
    if (second) this.start(index, version);
    else if (before === null) this.start(index, null);
    else if (Math.abs(index - before) < Math.abs(index - version)) this.start(index, version);
    else this.start(index, before);
  }

  to(index: number): void {
    const at = this.moving.peek();
    if (at !== null) this.start(index, at.fixed);
  }

  /** Move a handle by a key; it stays on its side of the other. */
  step(handle: keyof Places, index: number): void {
    const { version, before } = this.places.peek();
    if (handle === "before") this.start(clamp(index, 0, version - 1), version);
    else this.start(before === null ? index : Math.max(index, before + 1), before);
    this.rest(() => this.settle()); // no release follows a key
  }

  /** Show what the handles say now, without waiting for them to rest. */
  settle(): void {
    clearTimeout(this.timer);
    if (this.moving.peek() === null) return;
    batch(() => {
      this.tell();
      this.moving.value = null;
    });
  }

  /** Leave the handles where the page is. */
  cancel(): void {
    clearTimeout(this.timer);
    this.moving.value = null;
  }

  /** Compare with the version before, or with `index`. */
  compare(index?: number): void {
    const { version } = this.places.peek();
    const other = index ?? version - 1;
    if (this.versions.number.length < 2) return;
    this.start(other < 0 ? version + 1 : other, version);
    this.settle();
  }

  stopComparing(): void {
    this.cancel();
    this.store.before.value = null;
  }

  private start(index: number, fixed: number | null): void {
    const last = this.versions.number.length - 1;
    let to = clamp(index, 0, last);
    if (to === fixed) {
      // Two handles are never at one place: the moving one stays on the side that it comes from.
      const from = this.moving.peek()?.index ?? to - 1;
      to = (from > fixed && fixed < last) || fixed === 0 ? fixed + 1 : fixed - 1;
    }
    this.moving.value = { index: to, fixed };
    this.rest(() => this.tell());
  }

  private rest(then: () => void): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(then, REST);
  }

  private tell(): void {
    const { store } = this;
    const { version, before } = this.places.peek();
    const [number, older] = [this.versions.number[version], before === null ? null : this.versions.number[before]];
    if (number === undefined || older === undefined) return;
    batch(() => {
      if (older !== null && older !== store.before.peek()) store.tab.value = "changes";
      store.before.value = older;
      if (number !== store.version.peek()) store.travel(number);
    });
  }

  /** The place of a version, or of the last one before it when it is gone. */
  private indexOf(number: number): number {
    return lastAtMost(this.versions.number, number);
  }
}
