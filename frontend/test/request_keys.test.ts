import { expect, test } from "vitest";
import { requestKey } from "../src/kernel";
import examples from "./request_keys.json";

test.each(examples)("the key of $do is the one that Python makes", ({ do: what, asked, key }) => {
  expect(requestKey(what, asked)).toBe(key);
});
