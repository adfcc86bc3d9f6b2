import { describe, expect, it } from "vitest";
import {
  ago,
  bytes,
  clock,
  count,
  day,
  label,
  moment,
  percent,
  plural,
  seconds,
  short,
  shorten,
  signed,
  utc,
  utcAgo,
  utcExact,
} from "../src/format";

const AT = Date.UTC(2026, 10, 1, 10, 2, 33);

describe("numbers", () => {
  it("are grouped", () => {
    expect(count(336776)).toBe("336,776");
    expect(signed(28135)).toBe("+28,135");
    expect(signed(-4)).toBe("−4");
    expect(signed(0)).toBe("0");
    expect(plural(1, "row")).toBe("1 row");
    expect(plural(1204, "file")).toBe("1,204 files");
    expect(plural(2, "entry", "entries")).toBe("2 entries");
  });

  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1.0 k"],
    [9949, "9.9 k"],
    [9960, "10 k"],
    [336776, "337 k"],
    [999400, "999 k"],
    [999960, "1.0 M"],
    [10234567, "10.2 M"],
    [336776000, "337 M"],
    [-1500, "−1.5 k"],
  ])("%d is short as %s", (value, text) => expect(short(value)).toBe(text));

  it.each([
    [0, "0 B"],
    [1023, "1,023 B"],
    [1024, "1.0 KiB"],
    [1258291, "1.2 MiB"],
    [1048575, "1.0 MiB"],
    [250 * 1024, "250 KiB"],
    [5 * 1024 ** 4, "5.0 TiB"],
  ])("%d bytes are %s", (value, text) => expect(bytes(value)).toBe(text));

  it.each([
    [0, 5, "0 %"],
    [5, 5, "100 %"],
    [1, 10000, "< 0.1 %"],
    [9999, 10000, "> 99.9 %"],
    [4, 1000, "0.4 %"],
    [12, 100, "12 %"],
    [0, 0, "0 %"],
  ])("%d of %d is %s", (part, of, text) => expect(percent(part, of)).toBe(text));
});

describe("times", () => {
  it("are in UTC", () => {
    expect(utc(AT)).toBe("2026-11-01 10:02 UTC");
    expect(utcExact(AT)).toBe("2026-11-01 10:02:33 UTC");
    expect(clock(AT)).toBe("10:02");
    expect(day(AT)).toBe("1 Nov 2026");
    expect(day(AT, AT)).toBe("1 Nov");
    expect(moment(AT, AT)).toBe("1 Nov 10:02");
    expect(moment(AT - 400 * 86_400_000, AT)).toBe("27 Sep 2025 10:02");
    expect(utcAgo(AT, AT + 120_000)).toBe("2026-11-01 10:02:33 UTC, 2 min ago");
  });

  it.each([
    [-5000, "just now"],
    [59_000, "just now"],
    [120_000, "2 min ago"],
    [3 * 3_600_000, "3 h ago"],
    [26 * 3_600_000, "yesterday"],
    [5 * 86_400_000, "5 days ago"],
    [40 * 86_400_000, "22 Sep"],
    [400 * 86_400_000, "27 Sep 2025"],
  ])("%d ms before now is %s", (passed, text) => expect(ago(AT - passed, AT)).toBe(text));

  it.each([
    [0.183, "0.18 s"],
    [3.44, "3.4 s"],
    [12.3, "12 s"],
    [125, "2 min 5 s"],
  ])("%d seconds are %s", (value, text) => expect(seconds(value)).toBe(text));
});

it("cuts and labels texts", () => {
  expect(shorten("a long message", 7)).toBe("a long…");
  expect(shorten("short", 7)).toBe("short");
  expect(label("bulk_import")).toBe("Bulk import");
});
