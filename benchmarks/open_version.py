"""Open one of 1,000 snapshots, of 900 to 1,000 files, and plan a full scan of it; compared with peers in one run.

``python -m benchmarks.open_version [--snapshots 1000] [--rows 10] [--rounds 60]``: warm medians of interleaved
rounds; each opens another version, so caches do not help. Every append is a snapshot and a file. The plan is the list
of all files: Lance's fragments, delta-rs's file URIs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import sleeper_nb as sl
from benchmarks.writers import WRITERS, rows

WARMED_UP = 5


def ours(stack, folder):
    table = stack.enter_context(sl.connect(folder)).table("t")
    return lambda version: len(table.at(version).plan().files)


def ours_by_time(stack, folder):
    table = stack.enter_context(sl.connect(folder)).table("t")
    times = {snapshot.id: snapshot.time for snapshot in table.history()}
    return lambda version: len(table.at(timestamp=times[version]).plan().files)


def lance(_, folder):
    import lance

    return lambda version: len(lance.dataset(str(folder / "t.lance"), version=version).get_fragments())


def delta(_, folder):
    import deltalake

    return lambda version: len(deltalake.DeltaTable(folder / "t.delta", version=version - 1).file_uris())


WAYS = {
    "Lance": ("Lance", lance),
    "S3StateStore": ("S3StateStore, no sync", ours),
    "  by a moment": ("S3StateStore, no sync", ours_by_time),
    "TransactionLogStateStore": ("TransactionLog…, no sync", ours),
    "  its by a moment": ("TransactionLog…, no sync", ours_by_time),
    "delta-rs": ("delta-rs", delta),
}
"""By the names that the results show: who writes the table, and what opens a version of it, of 1, 2, 3 …"""


def filled(folder, writer, snapshots, count):
    """Make a table and append to it until it has so many snapshots."""
    WRITERS[writer].create(folder)
    with WRITERS[writer].opened(folder) as append:
        for number in range(snapshots - 1):
            append(rows(1, number, count))
    return folder


def measured(opens, snapshots, rounds):
    """Return for each way the milliseconds of each opening: of another version each time, and of the same once more."""
    chosen, found = random.Random(6), {name: ([], []) for name in opens}  # noqa: S311 - the same versions each run
    for number in range(rounds + WARMED_UP):
        version = chosen.randrange(snapshots * 9 // 10, snapshots + 1)
        for name, opened in opens.items():
            for again in (False, True):
                began = time.perf_counter()
                files = opened(version)
                spent = time.perf_counter() - began
                if files != version - 1:
                    raise SystemExit(f"{name} found {files} files in version {version}")
                if number >= WARMED_UP:
                    found[name][again].append(1000 * spent)
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--snapshots", type=int, default=1000)
    options.add_argument("--rows", type=int, default=10)
    options.add_argument("--rounds", type=int, default=60)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folders = {}
        for writer in dict.fromkeys(writer for writer, _ in WAYS.values()):
            folders[writer] = filled(Path(name) / f"{len(folders)}", writer, given.snapshots, given.rows)
        opens = {way: opener(stack, folders[writer]) for way, (writer, opener) in WAYS.items()}
        found = measured(opens, given.snapshots, given.rounds)
    peers = {peer: statistics.median(found[peer][0]) for peer in ("Lance", "delta-rs")}
    print(f"a version of {given.snapshots} snapshots, {given.rounds} rounds")
    for way, (other, again) in found.items():
        cost, once_more = statistics.median(other), statistics.median(again)
        ratios = "".join(f"   {cost / peer:5.2f} x {name}" for name, peer in peers.items())
        print(f"  {way:26} {cost:6.1f} ms{ratios}   the same again {once_more:5.1f} ms")


if __name__ == "__main__":
    main()
