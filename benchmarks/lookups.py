"""One key, twenty keys, and a range of 10,000 rows, out of 10 M rows in 16 leaves; compared with peers in one run.

``python -m benchmarks.lookups [--rows 1000000 10000000] [--leaves 16] [--rounds 6]``: warm medians, and the bytes
that one lookup reads (from Linux). Each way is in a process of its own, and they take turns of 10 lookups, since the
speed of a machine changes within seconds. DuckDB reads our Parquet files; delta-rs has the same rows, also sorted by
key, in as many files; Lance has a B-tree index on the key. All return an Arrow table of all columns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of
from benchmarks.turns import taking_turns

TURN, WARMED_UP = 10, 3
WIDTHS = {"one key": 1, "20 keys": 20, "a range of 10,000 rows": 10_000}


def key(number: int) -> str:
    """Return the key of a row; keys are sorted as their numbers."""
    return f"user-{number:09}"


def rows(count: int, first: int) -> pa.Table:
    """Return rows with consecutive keys."""
    keys = pa.array([key(number) for number in range(first, first + count)])
    return rows_of(first, count).set_column(0, "key", keys)


@dataclass(frozen=True)
class Wanted:
    """Some keys, or when there is a `high` the range of keys from the first one up to that."""

    keys: tuple[str, ...]
    high: str | None = None

    @classmethod
    def at(cls, numbers: Sequence[int], width: int) -> Wanted:
        """Return what one lookup asks for: as many keys as there are numbers, or a range."""
        first = key(numbers[0])
        return cls(tuple(map(key, numbers))) if width <= len(numbers) else cls((first,), key(numbers[0] + width))

    @property
    def condition(self) -> str:
        """The condition in SQL."""
        if self.high is not None:
            return f"key >= '{self.keys[0]}' AND key < '{self.high}'"
        texts = ", ".join(f"'{each}'" for each in self.keys)
        return f"key = {texts}" if len(self.keys) == 1 else f"key IN ({texts})"


Lookup = Callable[[Wanted], pa.Table]


@dataclass(frozen=True)
class Data:
    """The folder of the run, and how many rows each of its leaves has."""

    folder: Path
    leaves: int
    each: int

    def parts(self) -> list[pa.Table]:
        """Return the rows of each leaf."""
        return [rows(self.each, self.each * number) for number in range(self.leaves)]

    @property
    def ours(self) -> Path:
        """The folder of the warehouse."""
        return self.folder / "ours"


def create_ours(data: Data) -> None:
    """Load the rows into a table."""
    with sl.connect(data.ours) as session:
        split_points = [key(data.each * number) for number in range(1, data.leaves)]
        session.create_table("t", SCHEMA, split_points).ingest(pa.concat_tables(data.parts()))


def scan(data: Data) -> Lookup:
    """Look up with ``scan``."""
    table = sl.connect(data.ours).table("t")

    def lookup(wanted: Wanted) -> pa.Table:
        if wanted.high is None:
            return table.scan(keys=list(wanted.keys)).to_arrow()
        return table.scan(region={"key": (wanted.keys[0], wanted.high)}).to_arrow()

    return lookup


def sql(data: Data) -> Lookup:
    """Look up with our SQL."""
    session = sl.connect(data.ours)
    return lambda wanted: session.sql(f"SELECT * FROM t WHERE {wanted.condition}", engine="duckdb").to_arrow()


def bare_duckdb(data: Data) -> Lookup:
    """Look up in our files with stock DuckDB."""
    import duckdb

    files = [str(path) for path in data.ours.glob("*/*/data/**/*.parquet")]
    database = duckdb.connect()
    text = f"SELECT * FROM read_parquet({files}) WHERE "
    return lambda wanted: database.sql(text + wanted.condition).to_arrow_table()


def delta(data: Data) -> Lookup:
    """Look up in a Delta table."""
    import deltalake
    import pyarrow.compute as pc

    for part in data.parts():
        deltalake.write_deltalake(str(data.folder / "delta"), part, mode="append")
    field = pc.field("key")

    def lookup(wanted: Wanted) -> pa.Table:
        if wanted.high is None:
            met = field.isin(wanted.keys) if len(wanted.keys) > 1 else field == wanted.keys[0]
        else:
            met = (field >= wanted.keys[0]) & (field < wanted.high)
        return deltalake.DeltaTable(str(data.folder / "delta")).to_pyarrow_dataset().to_table(filter=met)

    return lookup


def lance(data: Data) -> Lookup:
    """Look up in a Lance table."""
    import lance as package

    table: Any = package.write_dataset(pa.concat_tables(data.parts()), str(data.folder / "lance"))
    table.create_scalar_index("key", "BTREE")
    return lambda wanted: table.to_table(filter=wanted.condition)


WAYS: dict[str, Callable[[Data], Lookup]] = {
    "ours, scan": scan, "ours, SQL on DuckDB": sql, "DuckDB, our files": bare_duckdb, "delta-rs": delta,
    "Lance, B-tree": lance,
}  # fmt: skip


def bytes_read() -> int:
    """Return how many bytes this process has read."""
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].partition("\n")[0])


def looking_up(way: str, data: Data, turns: Any) -> None:
    """Look up what is asked for, and answer with the seconds and bytes of each lookup; after it is ready, with None."""
    lookup = WAYS[way](data)
    turns.send(None)
    while wanted := turns.recv():
        found = []
        for each, width in wanted:
            read, began = bytes_read(), time.perf_counter()
            table = lookup(each)
            found.append((time.perf_counter() - began, bytes_read() - read))
            if table.num_rows != width:
                raise SystemExit(f"{way} found {table.num_rows} rows")
        turns.send(found)


def measured(data: Data, rounds: int) -> dict[str, dict[str, list[tuple[float, int]]]]:
    """Return the seconds and bytes of each lookup, by width and way."""
    random = np.random.default_rng(7)
    found = {name: {way: list[tuple[float, int]]() for way in WAYS} for name in WIDTHS}
    with taking_turns(looking_up, {way: (way, data) for way in WAYS}) as turns:
        for way in WAYS:
            turns[way].recv()  # it is ready
        for number in range(-1, rounds):  # the first round warms up
            for name, width in WIDTHS.items():
                for way in WAYS:
                    lookups = [Wanted.at(_numbers(random, data, width), width) for _ in range(TURN)]
                    turns[way].send([(each, width) for each in lookups])
                    times = turns[way].recv()
                    if number >= 0:
                        found[name][way] += times[WARMED_UP:]
    return found


def _numbers(random: np.random.Generator, data: Data, width: int) -> list[int]:
    """Return the rows of one lookup; of a range the first."""
    total = data.each * data.leaves
    count = width if width <= 20 else 1
    return [int(number) for number in random.choice(total - width, count, replace=False)]


def main() -> None:
    """Print how long each way takes."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    options.add_argument("--leaves", type=int, default=16)
    options.add_argument("--rounds", type=int, default=6)
    given = options.parse_args()
    for count in given.rows:
        with tempfile.TemporaryDirectory() as folder:
            data = Data(Path(folder), given.leaves, count // given.leaves)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(create_ours, (data,))
            compare(data, given.rounds)


def compare(data: Data, rounds: int) -> None:
    """Print how long each way takes for each width."""
    timed = rounds * (TURN - WARMED_UP)
    for name, ways in measured(data, rounds).items():
        print(f"{name} of {data.each * data.leaves:,} rows in {data.leaves} leaves, {timed} lookups each")
        peer = statistics.median(seconds for seconds, _ in ways["Lance, B-tree"])
        for way, times in ways.items():
            seconds, read = map(statistics.median, zip(*times, strict=True))
            print(f"  {way:20} {seconds * 1e3:8.1f} ms  {seconds / peer:6.2f} x Lance  read {read / 2**10:8,.0f} KiB")


if __name__ == "__main__":
    main()
