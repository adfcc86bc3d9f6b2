"""The harness of races itself: it does every order once, and finds what only some of them show."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.support.interleavings import Gate, Outcome, explore


@contextlib.contextmanager
def empty() -> Iterator[list[str]]:
    yield []


def steps(name: str, count: int) -> Callable[[list[str], Gate], None]:
    def work(done: list[str], gate: Gate) -> None:
        for number in range(count):
            gate.step(f"{number}")
            done.append(f"{name}{number}")

    return work


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (1, 1), (2, 3), (4, 4)])
def test_every_order_is_done_once(first: int, second: int):
    seen = []

    def check(done: list[str], outcomes: Mapping[str, Outcome]) -> None:
        seen.append(tuple(done))

    orders = explore(empty, {"a": steps("a", first), "b": steps("b", second)}, check)
    assert orders == len(seen) == len(set(seen)) == math.comb(first + second, first)
    assert all([s for s in order if s[0] == "a"] == [f"a{n}" for n in range(first)] for order in seen)


@pytest.mark.parametrize(("most", "orders"), [(0, 2), (1, 6), (2, 14), (None, 20)])
def test_orders_with_few_switches_are_some_of_all(most: int | None, orders: int):
    # of two operations of three steps: one after the other; or one interrupted at one of its two places; …
    work = {"a": steps("a", 3), "b": steps("b", 3)}
    assert explore(empty, work, lambda *_: None, most_switches=most) == orders


def test_a_lost_update_is_found_and_the_order_is_told():
    def add(done: list[str], gate: Gate) -> None:
        gate.step("read")
        before = len(done)
        gate.step("write")
        done[before:] = ["one more"]

    def check(done: list[str], outcomes: Mapping[str, Outcome]) -> None:
        assert len(done) == 2

    with pytest.raises(AssertionError) as found:
        explore(empty, {"a": add, "b": add}, check)
    assert found.value.__notes__ == ["in the order: a.read, b.read, b.write, a.write"]


def test_what_an_operation_gives_or_raises_is_handed_to_the_check():
    def fail(done: list[str], gate: Gate) -> None:
        gate.step("fail")
        raise KeyError(done)

    def check(done: list[str], outcomes: Mapping[str, Outcome]) -> None:
        assert isinstance(outcomes["a"].error, KeyError)
        assert outcomes["b"].value == 7

    explore(empty, {"a": fail, "b": lambda *_: 7}, check)
