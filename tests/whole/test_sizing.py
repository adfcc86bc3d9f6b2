"""Simulated writers: virtual time passes in order, a run depends on its seed, and stores differ as the page says."""

from __future__ import annotations

import re

import pytest

from benchmarks.sizing import ALONE, BEGIN, END, HEADS, PAGE, TOGETHER, VirtualTime, simulated
from sleeper_nb.clock import Retry

MILLION, MANY = 1_000_000, 20


def test_threads_take_turns_in_the_order_of_their_time():
    time, seen = VirtualTime(), []

    def work(name: str, step: float) -> None:
        for _ in range(3):
            time.spend(step)
            seen.append((name, time.now))

    time.spawn(lambda: work("slow", 1.0))
    time.spawn(lambda: work("quick", 0.4))
    time.run()
    assert [(name, round(now, 6)) for name, now in seen] == [
        ("quick", 0.4), ("quick", 0.8), ("slow", 1.0), ("quick", 1.2), ("slow", 2.0), ("slow", 3.0)
    ]  # fmt: skip


def test_an_error_of_a_thread_is_that_of_the_run():
    time = VirtualTime()

    def work() -> None:
        time.spend(1.0)
        raise ZeroDivisionError

    time.spawn(work)
    time.spawn(lambda: time.spend(5.0))
    with pytest.raises(ZeroDivisionError):
        time.run()


@pytest.mark.parametrize("kind", ["S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore"])
def test_a_simulation_is_the_same_again(kind: str):
    once = simulated(kind, 10_000, 4, 2.0, Retry())
    assert once == simulated(kind, 10_000, 4, 2.0, Retry())
    assert once.commits > 0
    assert once.attempts > 1  # they met each other
    assert once.failed == 0


def test_writers_give_up_after_their_attempts():
    hasty = simulated("S3StateStore", MILLION, 6, 6.0, Retry(max_attempts=2, first_wait=0.02, max_wait=0.1))
    assert hasty.failed > 0


def test_only_the_store_with_whole_metadata_pays_for_files():
    rates = {kind: simulated(kind, MILLION, 1, 5.0, Retry()).rate for kind in ("S3StateStore", "DynamoDBStateStore",
                                                                               "TransactionLogStateStore")}  # fmt: skip
    assert rates["S3StateStore"] < 1
    assert min(rates["DynamoDBStateStore"], rates["TransactionLogStateStore"]) > MANY


def test_the_page_has_each_case():
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = rest.partition(END)[0].splitlines()
    found = [tuple(re.split(r" \| ", line.strip("| "))[:3]) for line in lines if line.startswith("| `")]
    assert found == [(f"`{each.kind}`", f"{each.files:,}", f"{each.writers}") for each in (*ALONE, *TOGETHER)]
    assert lines.count(HEADS[0]) == 2
