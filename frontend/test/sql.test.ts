import { describe, expect, test } from "vitest";
import { Colors } from "../src/sql/colors";
import { asksAt, completions, corrected, underlined } from "../src/sql/lookup";
import { oneLine, remembered } from "../src/sql/state";
import { numberTick, timeTicks } from "../src/sql/ticks";

describe("statements that ran", () => {
  test("are kept once, the newest first", () => {
    expect(remembered(["b", "a"], " a ")).toEqual(["a", "b"]);
    expect(remembered(["b"], "  ")).toEqual(["b"]);
    expect(
      remembered(
        Array.from({ length: 100 }, (_, n) => `${n}`),
        "new",
      ),
    ).toHaveLength(100);
  });

  test("fit on a line of the menu", () => {
    expect(oneLine("SELECT *\n  FROM t")).toBe("SELECT * FROM t");
  });
});

describe("colours", () => {
  test("do not depend on the order of the rows", () => {
    expect(new Colors().of("origin", ["LGA", "EWR", "JFK"])).toEqual([3, 1, 2].map((n) => `var(--sx-chart-${n})`));
  });

  test("stay with a value in later charts", () => {
    const colors = new Colors();
    const [ewr, jfk] = colors.of("origin", ["EWR", "JFK"]);
    expect(colors.of("origin", ["JFK", "ABQ"])[0]).toBe(jfk);
    expect(colors.of("origin", ["EWR"])).toEqual([ewr]);
    expect(new Set(colors.of("origin", ["ABQ", "JFK"])).size).toBe(2);
  });

  test("of what is left over is grey", () => {
    expect(new Colors().of("carrier", ["other"])).toEqual(["var(--sx-chart-other)"]);
  });

  test("are different within a chart as long as there are enough", () => {
    const colors = new Colors();
    colors.of("c", ["a", "b", "c", "d", "e", "f", "g", "h"]);
    expect(new Set(colors.of("c", ["a", "x", "y", "z"])).size).toBe(4);
  });
});

describe("ticks", () => {
  const at = (text: string) => Date.parse(`${text}Z`);

  test("of a year are months with the year once", () => {
    const { at: times, label } = timeTicks(at("2013-01-01T00:00"), at("2013-12-31T00:00"), 900);
    expect(times.map(label)).toEqual([
      "Jan\n2013",
      "Feb",
      "Mar",
      "Apr",
      "May",
      "Jun",
      "Jul",
      "Aug",
      "Sep",
      "Oct",
      "Nov",
      "Dec",
    ]);
  });

  test("have room in a narrow chart", () => {
    const { at: times, label } = timeTicks(at("2013-01-01T00:00"), at("2013-12-31T00:00"), 300);
    expect(times.map(label)).toEqual(["Jan\n2013", "Apr", "Jul", "Oct"]);
  });

  test("of days, hours and years", () => {
    const days = timeTicks(at("2013-08-18T00:00"), at("2013-09-15T00:00"), 400);
    expect(days.at.map(days.label)).toEqual(["19 Aug\n2013", "26 Aug", "2 Sep", "9 Sep"]);
    const hours = timeTicks(at("2013-08-18T20:00"), at("2013-08-19T04:00"), 300);
    expect(hours.at.map(hours.label)).toEqual(["21:00\n18 Aug", "00:00\n19 Aug", "03:00"]);
    const years = timeTicks(at("1990-05-01T00:00"), at("2013-05-01T00:00"), 400);
    expect(years.at.map(years.label)).toEqual(["1990", "1995", "2000", "2005", "2010"].slice(1));
  });

  test("of numbers are grouped or short", () => {
    expect([0, 336776, 2_500_000, 0.1 + 0.2].map(numberTick)).toEqual(["0", "336,776", "2.5 M", "0.3"]);
  });
});

describe("completion", () => {
  test("keeps the kernel's order", () => {
    const made = completions({
      from: 7,
      options: [
        { label: "delay", apply: "delay", kind: "column" },
        { label: "my delays", apply: '"my delays"', kind: "table" },
      ],
    })!;
    expect(made.from).toBe(7);
    expect(made.options.map((each) => each.apply)).toEqual([undefined, '"my delays"']);
    expect(made.options[0]!.boost!).toBeGreaterThan(made.options[1]!.boost!);
    expect(completions({ from: 0, options: [] })).toBeNull();
    expect(completions({ from: 0, options: [{ label: "DESC", apply: "DESC", kind: "keyword" }] }, "desc")).toBeNull();
  });

  test("corrects a name where one is meant", () => {
    const failure = { message: "", hint: "Did you mean 'delay'?", place: { from: 7, to: 11 } };
    expect(corrected("SELECT dela", failure)).toEqual({ name: "delay", text: "SELECT delay" });
    expect(corrected("SELECT dela", { ...failure, hint: "Did you mean delay or day?" })).toBeNull();
  });

  test("is asked at words, not after a space", () => {
    expect(["SEL", "t.", "VERSION AS OF '", "t@"].every(asksAt)).toBe(true);
    expect(asksAt("SELECT ")).toBe(false);
  });

  test("a place is always visible", () => {
    expect(underlined({ from: 2, to: 5 }, 10)).toEqual({ from: 2, to: 5 });
    expect(underlined({ from: 10, to: 12 }, 10)).toEqual({ from: 9, to: 10 });
    expect(underlined({ from: 0, to: 0 }, 10)).toEqual({ from: 0, to: 1 });
    expect(underlined({ from: 0, to: 0 }, 0)).toEqual({ from: 0, to: 0 });
  });
});
