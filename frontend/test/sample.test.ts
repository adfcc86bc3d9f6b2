import { describe, expect, it } from "vitest";
import { flights, FLIGHTS } from "../dev/sample_data";
import { SampleModel } from "../dev/sample";
import { SampleRows } from "../dev/sample_rows";
import { Kernel, RequestError } from "../src/kernel";

const none = { filters: [], sorts: [], search: "" };

describe("sample tables", () => {
  const rows = new SampleRows(flights());

  it("have in each version the rows that its history says", () => {
    const { number, rows: counts } = rows.table.versions;
    const found = number.map((version) => rows.select(version, none).length);
    expect(found.filter((_, i) => number[i] !== 11)).toEqual(counts.filter((_, i) => number[i] !== 11));
    expect(found.at(-1)).toBe(FLIGHTS);
  });

  it("have bars that count all rows, and cubes that add up to them", () => {
    const header = rows.header(18, none, "dep_delay");
    expect(header.counts.reduce((a, b) => a + b, 0) + header.nulls).toBe(FLIGHTS);
    const cube = rows.cube(18, none, "carrier", ["dep_delay"]);
    const sums = header.bars.map((_, bar) => cube.columns.dep_delay!.counts.reduce((sum, line) => sum + line[bar]!, 0));
    expect(sums).toEqual(header.counts);
  });

  it("are filtered by bars as their headers say", () => {
    const header = rows.header(18, none, "origin");
    const query = { ...none, filters: [{ column: "origin", value: 1 }] };
    expect(rows.select(18, query).length).toBe(header.counts[1]);
  });
});

describe("the sample model", () => {
  it("answers, cancels and fails as a kernel does", async () => {
    const model = new SampleModel({ latency: 0 });
    const kernel = new Kernel(model, {});
    expect((await kernel.ask("tables", {})).names).toEqual(["airports", "bookings", "flights"]);
    const first = kernel.ask("history", { table: "flights", first: 0, count: 5 });
    const second = kernel.ask("history", { table: "flights", first: 5, count: 5 });
    await expect(first).rejects.toThrow();
    expect((await second).entries[0]?.number).toBe(13);
    const wrong = kernel.ask("sql", { table: "flights", version: 18, text: "SELECT dep_dela FROM flights" });
    await expect(wrong).rejects.toBeInstanceOf(RequestError);
    expect(model.asked.filter((each) => each.do === "cancel")).toHaveLength(1);
  });

  it("rolls back", async () => {
    const kernel = new Kernel(new SampleModel({ latency: 0 }), {});
    await kernel.ask("act", { table: "flights", action: "roll back", version: 10, name: "" });
    const { versions } = await kernel.ask("open", { table: "flights" });
    expect(versions.kind.at(-1)).toBe("rollback");
    expect(versions.rows.at(-1)).toBe(versions.rows[9]);
  });
});
