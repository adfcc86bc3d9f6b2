import { describe, expect, it } from "vitest";
import { edge, whole } from "../src/axis_view";
import {
  areas,
  bins,
  binSize,
  indexAt,
  marked,
  middle,
  moved,
  numbered,
  whens,
} from "../src/timebar_scale";

const DAY = 86_400_000;
const START = Date.UTC(2026, 10, 1, 10, 2);

describe("the axis", () => {
  it("gives each version the same width", () => {
    const view = whole(4);
    expect([0, 1, 2, 3, 4].map((i) => edge(view, 400, i))).toEqual([0, 100, 200, 300, 400]);
    expect(middle(view, 400, 1)).toBe(150);
    expect(indexAt(view, 400, 199, 4)).toBe(1);
    expect(indexAt(view, 400, 200, 4)).toBe(2);
    expect(indexAt(view, 400, -5, 4)).toBe(0);
    expect(indexAt(view, 400, 500, 4)).toBe(3);
  });
});

describe("bins", () => {
  it("are single versions where there is room", () => {
    expect(binSize(whole(10), 400, 12)).toBe(1);
    expect(bins(whole(3), 400, 12, 3)).toEqual([
      { from: 0, to: 1 },
      { from: 1, to: 2 },
      { from: 2, to: 3 },
    ]);
  });

  it("are as many as the width has room for, whatever the number of versions", () => {
    const found = bins(whole(10_000), 1200, 12, 10_000);
    expect(found.length).toBeLessThanOrEqual(100);
    expect(found.at(-1)?.to).toBe(10_000);
    expect(found.every((each, i) => i === 0 || each.from === found[i - 1]?.to)).toBe(true);
  });

  it("have a mark each, but for what is left over at the end", () => {
    const marks = marked(whole(33), 400, 13, 33);
    expect(marks.map((each) => each.from)).toEqual(Array.from({ length: 16 }, (_, i) => 2 * i));
    expect(marks.at(-1)?.to).toBe(33);
    expect(marked(whole(1), 400, 13, 1)).toEqual([{ from: 0, to: 1, x: 200 }]);
  });

  it("stay where they are while one pans", () => {
    const here = bins({ first: 100, last: 1100 }, 600, 12, 10_000).map((each) => each.from);
    const there = bins({ first: 103.5, last: 1103.5 }, 600, 12, 10_000).map((each) => each.from);
    expect(there.slice(0, -1).every((each) => here.includes(each))).toBe(true);
  });
});

describe("the area", () => {
  it("steps from version to version", () => {
    const { most, least } = areas([0, 10, 5], whole(3), 300, 40);
    expect(most).toBe("M0 40V40H100V0H200V20H300V40Z");
    expect(least).toBe(most);
  });

  it("keeps a short dip among thousands in the lower outline", () => {
    const rows = Array.from({ length: 10_000 }, (_, i) => (i === 5003 ? 0 : 100));
    const { most, least } = areas(rows, whole(10_000), 1000, 40);
    expect(most.match(/V0H/g)?.length).toBe(625);
    expect(least).toContain("V40H");
    expect(most.length).toBeLessThan(20_000);
  });

  it("is flat for an empty table, and for none at all", () => {
    expect(areas([0, 0], whole(2), 100, 40).most).toBe("M0 40V40H50V40H100V40Z");
    expect(areas([], whole(0), 100, 40).most).toBe("M0 40V40Z");
  });
});

describe("texts under the axis", () => {
  it("are numbers where they have room", () => {
    const numbers = Array.from({ length: 10_000 }, (_, i) => i + 1);
    expect(numbered(whole(4), 400, [1, 2, 3, 4]).map((each) => each.x)).toEqual([50, 150, 250, 350]);
    const many = numbered(whole(10_000), 1000, numbers);
    expect(many.length).toBeLessThanOrEqual(26);
    expect(many.slice(0, 3).map((each) => numbers[each.index])).toEqual([500, 1000, 1500]);
  });

  it("are days first, then times, and never collide", () => {
    const committed = [START, START + 60_000, START + DAY, START + DAY + 3_600_000, START + 2 * DAY];
    const found = whens(whole(5), 1000, committed);
    expect(found.map((each) => each.text)).toEqual(["1 Nov 2026", "10:03", "2 Nov", "11:02", "3 Nov"]);
    expect(found[1]?.x).toBe(300);
    const narrow = whens(whole(5), 260, committed);
    expect(narrow.map((each) => each.text)).toEqual(["1 Nov 2026", "2 Nov", "3 Nov"]);
  });

  it("say a time once", () => {
    const committed = [START, START + 5000, START + 9000, START + 60_000];
    expect(whens(whole(4), 1000, committed).map((each) => each.text)).toEqual(["1 Nov 2026", "10:03"]);
  });

  it("are few for 10,000 versions", () => {
    const committed = Array.from({ length: 10_000 }, (_, i) => START + i * 7 * 3_600_000);
    expect(whens(whole(10_000), 1200, committed).length).toBeLessThan(20);
  });
});

it("keys move a handle and stop at the ends", () => {
  expect(moved("ArrowLeft", 5, 10, 3)).toBe(4);
  expect(moved("ArrowRight", 9, 10, 3)).toBe(9);
  expect(moved("PageUp", 5, 10, 3)).toBe(8);
  expect(moved("PageDown", 1, 10, 3)).toBe(0);
  expect(moved("Home", 5, 10, 3)).toBe(0);
  expect(moved("End", 5, 10, 3)).toBe(9);
  expect(moved("a", 5, 10, 3)).toBeNull();
});
