import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { BLOCK, Blocks } from "../src/grid/blocks";
import type { Block, BlockRequest, GridSource } from "../src/grid/source";
import { RequestError, Superseded } from "../src/kernel";

interface Asked extends BlockRequest {
  answer(parts?: Partial<Block>): Promise<void>;
  fail(error: Error): Promise<void>;
}

const COLUMNS = Array.from({ length: 100 }, (_, i) => ({ name: `c${i}`, type: "int", kind: "integer" as const }));

function made(total: number | null): { blocks: Blocks; asked: Asked[] } {
  const asked: Asked[] = [];
  const slots: (((error: Error) => void) | undefined)[] = [];
  const source: GridSource = {
    key: "",
    columns: COLUMNS,
    total,
    fetch: (request) =>
      new Promise((resolve, reject) => {
        slots[request.slot]?.(new Superseded());
        slots[request.slot] = reject;
        asked.push({
          ...request,
          answer: async (parts = {}) => {
            const { first, columns } = request;
            const rows = Array.from({ length: BLOCK }, (_, i) => columns.map((name) => `${first + i} ${name}`));
            resolve({ columns, rows, total, last: false, ...parts });
            await vi.advanceTimersByTimeAsync(0);
          },
          fail: async (error) => {
            reject(error);
            await vi.advanceTimersByTimeAsync(0);
          },
        });
      }),
  };
  return { blocks: new Blocks(source, COLUMNS), asked };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("blocks", () => {
  it("asks for the block and the chunk that are seen, once", async () => {
    const { blocks, asked } = made(1_000);
    blocks.want({ first: 0, end: 30 }, ["c0", "c3"]);
    blocks.want({ first: 1, end: 31 }, ["c0", "c3"]);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({ first: 0, count: BLOCK, slot: 0 });
    expect(asked[0]?.columns).toHaveLength(40);
    expect(blocks.cell(5, "c3")).toBeUndefined();
    await asked[0]?.answer();
    expect(blocks.cell(5, "c3")).toBe("5 c3");
    expect(blocks.changed.value).toBe(1);
    blocks.want({ first: 2, end: 32 }, ["c0"]);
    expect(asked).toHaveLength(1);
  });

  it("asks for two chunks of a block at once", () => {
    const { blocks, asked } = made(1_000);
    blocks.want({ first: 0, end: 30 }, ["c39", "c40"]);
    expect(asked).toHaveLength(1);
    expect(asked[0]?.columns).toHaveLength(80);
  });

  it("has two requests under way and goes on with what is wanted then", async () => {
    const { blocks, asked } = made(10_000);
    for (let first = 0; first < 2_000; first += 50) blocks.want({ first, end: first + 30 }, ["c0"]);
    expect(asked.map(({ first }) => first)).toEqual([0, 100]);
    await asked[0]?.answer();
    expect(asked.map(({ first }) => first)).toEqual([0, 100, 1900]);
  });

  it("gives up what is out of sight when the scrolling rests", async () => {
    const { blocks, asked } = made(10_000);
    blocks.want({ first: 0, end: 30 }, ["c0"]);
    blocks.want({ first: 130, end: 160 }, ["c0"]);
    blocks.want({ first: 5_040, end: 5_060 }, ["c0"]);
    expect(asked).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(200);
    expect(asked.map(({ first, slot }) => [first, slot])).toEqual([[0, 0], [100, 1], [5_000, 0]]);
    await asked[2]?.answer();
    expect(blocks.cell(5_050, "c0")).toBe("5050 c0");
  });

  it("drops the blocks that were not seen for long", async () => {
    const { blocks, asked } = made(100_000);
    for (let block = 0; block < 70; block++) {
      blocks.want({ first: block * BLOCK + 40, end: block * BLOCK + 60 }, ["c0"]);
      await asked.at(-1)?.answer();
    }
    expect(blocks.cell(50, "c0")).toBeUndefined();
    expect(blocks.cell(6_950, "c0")).toBe("6950 c0");
  });

  it("grows while the total is unknown", async () => {
    const { blocks, asked } = made(null);
    expect(blocks.rows).toBe(BLOCK);
    blocks.want({ first: 0, end: 30 }, ["c0"]);
    await asked[0]?.answer();
    expect([blocks.total, blocks.rows]).toEqual([null, 2 * BLOCK]);
    blocks.want({ first: 110, end: 130 }, ["c0"]);
    await asked[1]?.answer({ rows: [["1"], ["2"]], columns: ["c0"], last: true });
    expect([blocks.total, blocks.rows]).toEqual([102, 102]);
  });

  it("knows the total of an answer", async () => {
    const { blocks, asked } = made(500);
    blocks.want({ first: 0, end: 30 }, ["c0"]);
    await asked[0]?.answer({ rows: [], total: 0, last: true });
    expect([blocks.total, blocks.rows, blocks.isEmpty]).toEqual([0, 0, false]);
  });

  it("keeps an error until it is asked again", async () => {
    const { blocks, asked } = made(500);
    blocks.want({ first: 0, end: 30 }, ["c0"]);
    await asked[0]?.fail(new RequestError({ message: "no such column", hint: "" }));
    expect(blocks.failure.value?.message).toBe("no such column");
    blocks.want({ first: 10, end: 40 }, ["c0"]);
    expect(asked).toHaveLength(1);
    blocks.retry();
    expect(asked).toHaveLength(2);
    expect(blocks.failure.value).toBeNull();
  });

  it("has the marks of changed rows", async () => {
    const { blocks, asked } = made(1);
    blocks.want({ first: 0, end: 1 }, ["c0"]);
    const marks = [{ kind: "changed" as const, before: ["1", "2"], differs: [false, true] }];
    await asked[0]?.answer({ columns: ["c0", "c1"], rows: [["1", "3"]], marks, last: true });
    expect(blocks.mark(0, "c0")?.kind).toBe("changed");
    expect(blocks.before(0, "c0")).toBeUndefined();
    expect(blocks.before(0, "c1")).toBe("2");
  });
});
