import { expect, it } from "vitest";
import { SampleModel } from "../dev/sample";
import { Kernel, Superseded } from "../src/kernel";

it("two pages of one widget get their own answers and cancel nothing of each other", async () => {
  const model = new SampleModel({ latency: 0, cold: true });
  const [one, other] = [new Kernel(model), new Kernel(model)];
  const history = (first: number) => ({ table: "flights", first, count: 1 });
  const answers = await Promise.all([one.ask("history", history(0)), other.ask("history", history(3))]);
  expect(answers.map((each) => each.entries[0]?.number)).toEqual([18, 15]);
  expect(new Set(model.asked.map((each) => each.topic)).size).toBe(2);
  const older = one.ask("history", history(1));
  const newer = one.ask("history", history(2));
  await expect(older).rejects.toThrow(Superseded);
  expect((await newer).entries[0]?.number).toBe(16);
  expect(model.asked.every((each) => Number.isSafeInteger(each.id))).toBe(true);
});
