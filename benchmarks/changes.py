"""Difference of two versions with 1 % new rows and a compaction in between, compared with DuckDB, in one run.

``python -m benchmarks.changes [--rows 1000000] [--rounds 3]``: CPU seconds, wall seconds and peak memory of each
variant, medians of alternating rounds, each in its own process that runs the variant once after its imports. Ours is
``table.diff``, and ``table.changes(…).added.to_arrow()``; DuckDB counts ``EXCEPT ALL`` in both directions over the data
files of the two versions, which gives the same answer, and in one direction, as ``added`` needs it. Also printed: a
difference that reads no file, of two versions with only a split between them. The rows have a map, and doubles with NaN
and NULL.

``--agree`` asks both for the difference of rows whose values are equal but written in another way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

FILES = 10
COLUMNS = {"number": "long", "price": "double?", "city": "string", "tags": "map<string,long>?"}


def rows_of(number, count):
    """Return rows with keys over the whole table; some prices are NaN or NULL, and some maps are NULL or empty."""
    random = np.random.default_rng(number)
    prices = random.normal(100, 20, count).round(2)
    prices[random.random(count) < 0.01] = np.nan
    price = pa.array(prices, mask=random.random(count) < 0.01, from_pandas=False)
    sizes = random.integers(0, 4, count)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    names = pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), ["a", "b", "c"]).cast(pa.string())
    items = pa.array(random.integers(0, 1000, offsets[-1]))
    tags = pa.MapArray.from_arrays(pa.array(offsets), names, items)
    city = np.char.add("city ", random.integers(0, 8, count).astype(str))
    keys = np.char.add("user-", random.integers(0, 10**12, count).astype(str))
    numbers = random.integers(0, 10**6, count)
    return pa.table({"key": keys, "number": numbers, "price": price, "city": city, "tags": tags})


def prepare(folder, rows):
    """Make a table and return the numbers of its versions: before, with 1 % more rows and compacted, and split."""
    import sleeper_nb as sl

    with sl.connect(folder) as session:
        table = session.create_table("t", sl.Schema({"key": "string"}, values=COLUMNS))
        for number in range(FILES):
            table.ingest(rows_of(number, rows // FILES))
        before = table.at().resolved.snapshot_id
        table.ingest(rows_of(FILES, rows // 100))
        table.maintenance.compact("all", engine="local")
        after = table.at().resolved.snapshot_id
        table.maintenance.split(at="user-5")
        return before, after, table.at().resolved.snapshot_id


def addresses(table, version):
    storage = table._store.storage
    return [storage.locate(file["filename"]) for file in table.at(version).inspect.files()]


def except_all(table, old, new, what):
    """Return a function that asks DuckDB for the rows of the one version that the other has not."""
    import duckdb

    con = duckdb.connect()
    statement = "SELECT {} FROM (SELECT * FROM read_parquet({}) EXCEPT ALL SELECT * FROM read_parquet({}))"
    text = statement.format(what, addresses(table, new), addresses(table, old))
    return lambda: con.sql(text).to_arrow_table()


def ways_of(table, before, after, split):
    """Return the ways to know, each with what it counts."""
    added, removed = (except_all(table, *pair, "count(*)") for pair in ((before, after), (after, before)))
    given = except_all(table, before, after, "*")
    return {
        "table.diff": lambda: list(table.diff(before, after).rows),
        "DuckDB EXCEPT ALL, both ways": lambda: [added()[0][0].as_py(), removed()[0][0].as_py()],
        "added.to_arrow()": lambda: [table.changes(before, after).added.to_arrow().num_rows],
        "DuckDB EXCEPT ALL, one way": lambda: [given().num_rows],
        "table.diff over a split": lambda: list(table.diff(after, split).rows),
    }


def spent_on(folder, way, versions):
    """Run one way in this process; return its answer, CPU seconds, wall seconds and peak memory in MiB."""
    import datafusion  # noqa: F401 - a notebook has it in memory after its first query

    import sleeper_nb as sl

    with sl.connect(folder) as session:
        run = ways_of(session.table("t"), *versions)[way]
        cpu, wall = time.process_time(), time.perf_counter()
        answer = run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return {"answer": answer, "CPU s": cpu, "wall s": wall, "MiB": peak / 2**10}


def in_a_process(*words):
    command = [sys.executable, "-m", "benchmarks.changes", *map(str, words)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def agree(folder):
    """Return what both say of rows that are equal but for the order in a map, the sign of a zero or the bits of NaN."""
    import sleeper_nb as sl

    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    pairs = {
        "the order in a map": ({"tags": [("a", 1), ("b", 2)]}, {"tags": [("b", 2), ("a", 1)]}),
        "the sign of a zero": ({"price": 0.0}, {"price": -0.0}),
        "the bits of NaN": ({"price": float("nan")}, {"price": odd_nan}),
        "a NULL": ({"price": None}, {"price": None}),
    }
    said = {}
    schema = sl.Schema({"key": "string"}, values=COLUMNS)
    for number, (name, (old, new)) in enumerate(pairs.items()):
        with sl.connect(folder) as session:
            table = session.create_table(f"t{number}", schema)
            row = {"key": "k", "number": 1, "price": 1.0, "city": "c", "tags": []}
            start = table.at().resolved.snapshot_id
            table.ingest(pa.Table.from_pylist([row | old], table.schema.arrow))
            before = table.at().resolved.snapshot_id
            table.rollback(start)
            table.ingest(pa.Table.from_pylist([row | new], table.schema.arrow))
            after = table.at().resolved.snapshot_id
            ours, theirs = list(ways_of(table, before, after, after).values())[:2]
            said[name] = {"ours": ours(), "DuckDB": theirs()}
    return said


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--agree", action="store_true")
    options.add_argument("--folder")
    options.add_argument("--way")
    options.add_argument("--versions", type=int, nargs=3)
    given = options.parse_args()
    if given.way:
        print(json.dumps(spent_on(given.folder, given.way, given.versions)))
        return
    if given.folder:
        print(json.dumps(prepare(given.folder, given.rows)))
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.agree:
            print(json.dumps(agree(folder), indent=2))
            return
        versions = in_a_process("--folder", folder, "--rows", given.rows)
        new = given.rows // 100
        answers = {
            "table.diff": [new, 0], "DuckDB EXCEPT ALL, both ways": [new, 0], "added.to_arrow()": [new],
            "DuckDB EXCEPT ALL, one way": [new], "table.diff over a split": [0, 0],
        }  # fmt: skip
        spent = {way: [] for way in answers}
        for _ in range(given.rounds):
            for way, answer in answers.items():
                once = in_a_process("--folder", folder, "--way", way, "--versions", *versions)
                if once["answer"] != answer:
                    raise SystemExit(f"{way} gave {once['answer']}, not {answer}")
                spent[way].append(once)
    print(f"{given.rows:,} rows in {FILES} files, {new:,} added, all compacted; pyarrow {pa.__version__}")
    for way, runs in spent.items():
        medians = (statistics.median(run[unit] for run in runs) for unit in ("CPU s", "wall s", "MiB"))
        print("  {:30} {:8.2f} CPU s {:8.2f} wall s {:8,.0f} MiB".format(way, *medians))


if __name__ == "__main__":
    main()
