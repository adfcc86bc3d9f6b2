import { describe, expect, it } from "vitest";
import { inView, rowFor, scrollFor } from "../src/list_window";
import { dueText, listed, missing, sparkPath } from "../src/rail_list";

describe("the list", () => {
  const names = ["airports", "flights", "june"];

  it("has all names without a text", () => expect(listed(names, " ", null).map((each) => each.name)).toEqual(names));

  it("has names at once, and what the kernel found after them", () => {
    expect(listed(names, "Fli", null)).toEqual([{ name: "flights", reason: "" }]);
    const found = [
      { name: "flights", reason: "" },
      { name: "june", reason: "row key flight" },
    ];
    expect(listed(names, "fli", found)).toEqual(found);
  });

  it("shows only what is in view, also of 10,000", () => {
    expect(inView(0, 500, 50, 10_000, 2)).toEqual([0, 12]);
    expect(inView(5000, 500, 50, 10_000, 2)).toEqual([98, 112]);
    expect(inView(9_999 * 50, 500, 50, 10_000, 2)).toEqual([9997, 10_000]);
    expect(inView(900, 500, 50, 3, 2)).toEqual([3, 3]);
  });

  it("scrolls no further than it must", () => {
    expect(scrollFor(5, 0, 500, 50)).toBe(0);
    expect(scrollFor(10, 0, 500, 50)).toBe(50);
    expect(scrollFor(1, 100, 500, 50)).toBe(50);
  });

  it("is gone through by keys, from none too", () => {
    expect(["ArrowDown", "ArrowUp", "PageDown", "End", "x"].map((key) => rowFor(key, -1, 20, 5))).toEqual([0, 0, 4, 19, null]);
    expect(rowFor("ArrowDown", 19, 20, 5)).toBe(19);
    expect(rowFor("Home", -1, 0, 5)).toBeNull();
  });

  it("asks only for what it does not know", () => {
    const details = { name: "june", rows: 1, bytes: 1, growth: [], due: [], problem: "" };
    expect(missing(names, new Map([["june", details]]))).toEqual(["airports", "flights"]);
  });
});

it("draws growth from the least to the most", () => {
  expect(sparkPath([0, 5, 10], 40, 20)).toBe("M0.0 20.0L20.0 10.0L40.0 0.0");
  expect(sparkPath([7], 40, 20)).toBe("");
  expect(sparkPath([0, 0, 0], 40, 20)).toBe("M0.0 20.0L20.0 20.0L40.0 20.0");
});

it("says what is due", () => {
  expect(dueText([])).toBe("");
  expect(dueText(["compaction"])).toBe("Compaction due");
  expect(dueText(["compaction", "expiry"])).toBe("2 due");
});
