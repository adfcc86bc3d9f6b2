import { expect, it } from "vitest";
import { Kernel, Superseded } from "../src/kernel";
import { FakeKernel, tablesOf } from "./fake_kernel";

it("two pages of one widget get their own answers and cancel nothing of each other", async () => {
  const model = new FakeKernel({}, tablesOf());
  const [one, other] = [new Kernel(model), new Kernel(model)];
  const commit = (version: number) => ({ table: "flights", version });
  const answers = await Promise.all([one.ask("commit", commit(18)), other.ask("commit", commit(15))]);
  expect(answers.map((each) => each.files)).toEqual([18, 15]);
  expect(new Set(model.asked.map((each) => each.topic)).size).toBe(2);
  const older = one.ask("commit", commit(17));
  const newer = one.ask("commit", commit(16));
  await expect(older).rejects.toThrow(Superseded);
  expect((await newer).files).toBe(16);
  expect(model.asked.every((each) => Number.isSafeInteger(each.id))).toBe(true);
});
