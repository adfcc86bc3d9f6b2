import { describe, expect, it } from "vitest";
import {
  blocksOf,
  columnsSeen,
  contentAt,
  isStuck,
  MOST_SPACE,
  offsetsOf,
  revealed,
  rowsSeen,
  scaleOf,
  scrolled,
  settled,
  spaceAt,
} from "../src/grid/virtual";

const ROW = 28;
const LARGE = scaleOf(10_000_000 * ROW, 600);
const SMALL = scaleOf(1_000 * ROW, 600);

describe("scrolling", () => {
  it("is to scale where the rows fit into an element", () => {
    expect(SMALL.space).toBe(28_000);
    expect(contentAt(SMALL, 1_234)).toBe(1_234);
    expect(scrolled(SMALL, { top: 0, at: 0 }, 20_000)).toEqual({ top: 20_000, at: 20_000 });
  });

  it("reaches both ends of 10 million rows", () => {
    expect(LARGE.space).toBe(MOST_SPACE);
    expect(contentAt(LARGE, 0)).toBe(0);
    expect(contentAt(LARGE, MOST_SPACE - 600)).toBe(280_000_000 - 600);
  });

  it("maps there and back", () => {
    for (const at of [0, 50, 99_999, 100_001, 1e6, 140e6, 279_899_000, 279_950_000, 280e6 - 600]) {
      expect(contentAt(LARGE, spaceAt(LARGE, at))).toBeCloseTo(at, 3);
    }
  });

  it("never goes back when the scroll bar goes on", () => {
    let last = -1;
    for (let top = 0; top <= MOST_SPACE - 600; top += 9_973) {
      const at = contentAt(LARGE, top);
      expect(at).toBeGreaterThan(last);
      last = at;
    }
  });

  it("moves by px for a wheel and in proportion for the thumb", () => {
    const middle = settled(LARGE, { top: 0, at: 140e6 });
    expect(scrolled(LARGE, middle, middle.top + 120).at).toBe(140e6 + 120);
    expect(scrolled(LARGE, middle, middle.top + 100_000).at).toBeGreaterThan(140e6 + 3e6);
  });

  it("puts the scroll bar back without moving the rows", () => {
    let now = settled(LARGE, { top: 0, at: 140e6 });
    for (let i = 0; i < 100; i++) now = scrolled(LARGE, now, now.top + 100);
    const rested = settled(LARGE, now);
    expect(rested.at).toBe(now.at);
    expect(Math.abs(rested.top - now.top)).toBeGreaterThan(9_000);
  });

  it("sees that the bar is at its end before the rows are", () => {
    expect(isStuck(LARGE, { top: 0, at: 5_000 })).toBe(true);
    expect(isStuck(LARGE, { top: 0, at: 0 })).toBe(false);
    expect(isStuck(LARGE, { top: MOST_SPACE - 600, at: 1e6 })).toBe(true);
  });

  it("brings a row into the window by the least move", () => {
    expect(revealed(SMALL, 100, 0, ROW)).toBe(0);
    expect(revealed(SMALL, 0, 590, ROW)).toBe(18);
    expect(revealed(SMALL, 0, 300, ROW)).toBe(0);
    expect(revealed(SMALL, 0, 999 * ROW, ROW)).toBe(28_000 - 600);
  });
});

describe("what is seen", () => {
  it("is rows, with some more on both sides", () => {
    expect(rowsSeen(SMALL, 0, ROW, 1_000)).toEqual({ first: 0, end: 22 });
    expect(rowsSeen(SMALL, 2_800, ROW, 1_000, 5)).toEqual({ first: 95, end: 127 });
    expect(rowsSeen(scaleOf(0, 600), 0, ROW, 0)).toEqual({ first: 0, end: 0 });
  });

  it("is columns", () => {
    const offsets = offsetsOf([100, 200, 50, 50]);
    expect(offsets).toEqual([0, 100, 300, 350, 400]);
    expect(columnsSeen(offsets, 0, 100)).toEqual({ first: 0, end: 1 });
    expect(columnsSeen(offsets, 120, 320)).toEqual({ first: 1, end: 3 });
    expect(columnsSeen(offsets, 120, 320, 1)).toEqual({ first: 0, end: 4 });
    expect(columnsSeen(offsets, 350, 9_000)).toEqual({ first: 3, end: 4 });
    expect(columnsSeen([0], 0, 100)).toEqual({ first: 0, end: 0 });
  });

  it("is blocks", () => {
    expect(blocksOf({ first: 95, end: 127 }, 100)).toEqual([0, 1]);
    expect(blocksOf({ first: 100, end: 200 }, 100)).toEqual([1]);
    expect(blocksOf({ first: 5, end: 5 }, 100)).toEqual([]);
  });
});
