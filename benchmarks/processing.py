"""Cost of filters, aggregations and an iterator in a scan and in a compaction, compared with the same rows without.

``python -m benchmarks.processing [--rows 2000000] [--rounds 3]``: medians of interleaved rounds. Five files of
random keys, about five rows per key; ``duckdb key`` queries one key with SQL.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import sleeper_nb as sl

PREFIX = "sleeper.table."
FILES = 5
NUMBERS = sl.Schema({"k": "long"}, {"t": "long"}, {"n": "int", "x": "double"})
MAPS = sl.Schema({"k": "long"}, {"t": "long"}, {"n": "int", "m": "map<string,long>"})
CHANGED = sl.Schema({"k": "long"}, {"t": "long"}, {"n": "int", "x": "double", "gone": "boolean?"})
TABLES = {
    "plain": (NUMBERS, {}),
    "filter": (NUMBERS, {"filters": "ageOff(t,100000000000000)"}),
    "last": (NUMBERS, {"aggregations": "last(*,n)"}),
    "last, deletes": (CHANGED, {"aggregations": "last(*,n)", "aggregations.delete.column": "gone"}),
    "numbers": (NUMBERS, {"aggregations": "sum(n),max(x)"}),
    "iterator": (NUMBERS, {"iterator.class.name": f"{__spec__.name}:positive"}),
    "plain, maps": (MAPS, {}),
    "maps": (MAPS, {"aggregations": "sum(n),map_sum(m)"}),
}


def positive(batch, config):
    """Keep rows whose number is positive: all of them."""
    return batch.filter(pc.greater(batch["n"], 0))


def data(schema, count, seed):
    """Return rows of a file."""
    random = np.random.default_rng(seed)
    columns = {"k": random.integers(0, count, count), "t": np.zeros(count, np.int64), "n": np.ones(count, np.int32)}
    if "gone" in schema.names:
        columns |= {"n": np.full(count, seed, np.int32), "gone": random.random(count) < 0.01}
    if "x" in schema.names:
        return pa.table(columns | {"x": random.random(count)})
    ends = np.arange(0, 2 * count + 1, 2, dtype=np.int32)
    items = pa.array(random.integers(0, 9, 2 * count))
    return pa.table(columns | {"m": pa.MapArray.from_arrays(ends, pa.array(["x", "y"] * count), items)})


def timed(work):
    """Return the seconds that work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(session, name, number, rows, found):
    """Make a table, scan it, ask it for a key, and compact it."""
    schema, properties = TABLES[name]
    table = session.create_table(f"t{number}", schema, properties={PREFIX + key: v for key, v in properties.items()})
    for seed in range(FILES):
        loaded = data(schema, rows // FILES, seed)
        found.setdefault(("load", name), []).append(timed(lambda loaded=loaded: table.ingest(loaded)))
    one = f"select count(*) from {table.name} where k = 5"
    for what, work in (
        ("scan", lambda: table.scan().to_arrow()),
        ("duckdb key", lambda: session.sql(one, engine="duckdb").to_arrow()),
        ("compact", lambda: table.maintenance.compact("all", engine="local")),
    ):
        found.setdefault((what, name), []).append(timed(work))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        sl.connect(folder, iterators=[f"{__spec__.name}:positive"]) as session,
    ):
        for number in range(given.rounds * len(TABLES)):
            measure(session, list(TABLES)[number % len(TABLES)], number, given.rows, found)
    print(f"{given.rows:,} rows in {FILES} files, {given.rounds} rounds")
    for (what, name), times in sorted(found.items()):
        seconds = statistics.median(times)
        floor = statistics.median(found[what, "plain, maps" if "maps" in name else "plain"])
        print(f"{what:10} {name:13} {seconds:6.2f} s   {seconds / floor:5.2f} x plain")


if __name__ == "__main__":
    main()
