"""One process appends 1,000 rows repeatedly: commits per second of our state stores and their peers, in one run.

``python -m benchmarks.appends [--appends 200 1000] [--rows 1000] [--rounds 3]``: medians of rounds. Each writer is in a
process of its own, and they take turns of 20 appends, since the speed of a machine changes within seconds. The slow
peers run only with the fewest appends.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.turns import taking_turns
from benchmarks.writers import WRITERS, rows

TURN = 20
SLOW = {"delta-rs", "PyIceberg"}


def appending(name, folder, count, turns):
    """Append as many times as asked, and answer with the seconds of each; what the first append loads is not timed."""
    with WRITERS[name].opened(folder) as append:
        append(rows(1, 0, count))
        while numbers := turns.recv():
            data = [rows(1, number, count) for number in numbers]
            times = []
            for each in data:
                began = time.perf_counter()
                append(each)
                times.append(time.perf_counter() - began)
            turns.send(times)


def one_round(names, appends, count):
    """Return the seconds of each append of each writer."""
    times = {name: [] for name in names}
    with ExitStack() as stack:
        folders = {name: Path(stack.enter_context(tempfile.TemporaryDirectory())) for name in names}
        for name in names:
            WRITERS[name].create(folders[name])
        with taking_turns(appending, {name: (name, folders[name], count) for name in names}) as turns:
            for begin in range(1, appends + 1, TURN):
                for name in names:
                    turns[name].send(range(begin, min(begin + TURN, appends + 1)))
                    times[name] += turns[name].recv()
        for name in names:
            if (landed := WRITERS[name].landed(folders[name])) != (appends + 1, (appends + 1) * count):
                raise SystemExit(f"{name}: {landed} landed")
    return times


def compare(names, appends, count, rounds):
    """Print the rate of each writer, and how it slows down."""
    rates, slowing = {name: [] for name in names}, {name: [] for name in names}
    for _ in range(rounds):
        for name, times in one_round(names, appends, count).items():
            rates[name].append(appends / sum(times))
            slowing[name].append(statistics.median(times[-TURN:]) / statistics.median(times[:TURN]))
    peer = statistics.median(rates["Lance"])
    print(f"{appends} appends of {count} rows, {rounds} rounds")
    for name in names:
        rate = statistics.median(rates[name])
        last = statistics.median(slowing[name])
        print(f"{name:26} {rate:6.0f} commits/s   {rate / peer:5.2f} x Lance   last {TURN} / first {TURN}: {last:.2f}")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--appends", type=int, nargs="+", default=[200, 1000])
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    for appends in sorted(given.appends):
        quick = appends > min(given.appends)
        compare([name for name in WRITERS if not (quick and name in SLOW)], appends, given.rows, given.rounds)


if __name__ == "__main__":
    main()
