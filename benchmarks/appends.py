"""One process appends 1,000 rows repeatedly: commits per second of our state stores and their peers, in one run.

``python -m benchmarks.appends [--appends 200] [--rows 1000] [--rounds 3]``: medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.writers import WRITERS, rows


def times_of(writer, appends, count):
    """Return the seconds of each append."""
    data = [rows(1, number, count) for number in range(appends)]
    times = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer.create(folder)
        with writer.opened(folder) as append:
            for each in data:
                began = time.perf_counter()
                append(each)
                times.append(time.perf_counter() - began)
        landed = writer.landed(folder)
    if landed != (appends, appends * count):
        raise SystemExit(f"{landed} landed")
    return times


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--appends", type=int, default=200)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    rates = {name: [] for name in WRITERS}
    slowing = {name: [] for name in WRITERS}
    for _ in range(given.rounds):
        for name, writer in WRITERS.items():
            times = times_of(writer, given.appends, given.rows)
            rates[name].append(given.appends / sum(times))
            slowing[name].append(statistics.median(times[-20:]) / statistics.median(times[:20]))
    peer = statistics.median(rates["Lance"])
    print(f"{given.appends} appends of {given.rows} rows, {given.rounds} rounds")
    for name in WRITERS:
        rate = statistics.median(rates[name])
        last = statistics.median(slowing[name])
        print(f"{name:26} {rate:6.0f} commits/s   {rate / peer:5.2f} x Lance   last 20 / first 20: {last:.2f}")


if __name__ == "__main__":
    main()
