from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from sleeper_nb.read.background import prefetched


def counting(seen: list[str | int], until: int = 100) -> Iterator[int]:
    try:
        for number in range(until):
            seen.append(number)
            yield number
    finally:
        seen.append("closed")


def test_items_come_in_their_order_from_another_thread():
    threads: set[int] = set()

    def items() -> Iterator[int]:
        for number in range(50):
            threads.add(threading.get_ident())
            yield number

    assert list(prefetched(items(), 3)) == list(range(50))
    assert threading.get_ident() not in threads
    assert len(threads) == 1


def test_only_so_many_items_are_prefetched():
    seen: list[str | int] = []
    with closing(prefetched(counting(seen), 4)) as items:
        assert next(items) == 0
    # one is used, four wait, and one may be under way
    assert len([each for each in seen if each != "closed"]) <= 6


def test_an_error_comes_in_its_place():
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    items_ahead = prefetched(items(), 16)
    assert next(items_ahead) == 1
    with pytest.raises(ValueError, match="two"):
        next(items_ahead)


def test_whoever_stops_early_leaves_no_thread_and_nothing_open():
    before, seen = {*threading.enumerate()}, []
    with closing(prefetched(counting(seen), 2)) as items:
        next(items)
    assert seen[-1] == "closed"
    assert {*threading.enumerate()} - before == set()
