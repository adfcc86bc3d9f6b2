"""Change rows of a table, compared with delta-rs and Lance: each in a process of its own, stock, on the same rows.

``python -m benchmarks.changing_rows [--rows 1000000 10000000] [--files 16] [--rounds 3] [--systems sleeper lance]``:
seconds (best of the rounds), each on the same version, to which the table is restored before. Rows are in key order: a
key of 17 characters, a time, a number, a value and a text of four words. ``delete 1 % range`` goes by the key,
``scattered`` by the number; the merge has a row for each hundred of the table, half of them new. ``scan`` reads all
columns (into Arrow; on Spark into an aggregate): before, and after the scattered deletion, and with our engines also
after a compaction, in turns. Peak memory is that of the process up to the scans; the data was made before, in another
one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EVERY_COLUMN = "SELECT count(key), max(at), sum(n), sum(value), max(text) FROM t"
WORDS = np.array(["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett"])


def rows_of(numbers, of):
    """Return rows with some numbers."""
    keys = np.char.zfill(numbers.astype("U17"), 17)
    chosen = WORDS[(numbers[:, None] * np.array([7, 11, 13, 17]) // 3) % len(WORDS)]
    text = chosen[:, 0]
    for column in range(1, 4):
        text = np.char.add(np.char.add(text, " "), chosen[:, column])
    return pa.table(
        {
            "key": pa.array(keys.tolist(), pa.string()),
            "at": pa.array(numbers * 1_000_000, pa.timestamp("us", "UTC")),
            "n": pa.array(numbers, pa.int64()),
            "value": pa.array((numbers * 2654435761 % of) / of, pa.float64()),
            "text": pa.array(text.tolist(), pa.string()),
        }
    )


def generate(folder, rows, files):
    """Write the rows of the table to files in the order of their keys, and the rows of the merge to another."""
    # every number is even, so that the odd ones are new
    for number in range(files):
        first, end = rows * number // files, rows * (number + 1) // files
        pq.write_table(
            rows_of(np.arange(2 * first, 2 * end, 2), rows), folder / f"{number:02}.parquet", compression="zstd"
        )
    source = np.arange(0, 2 * rows, 200)
    half = np.where(np.arange(len(source)) % 2 == 0, source, source + 1)
    pq.write_table(rows_of(half, rows), folder / "merge.parquet")


def timed(rounds, restore, work):
    """Return the least seconds of some rounds, each on the restored table."""
    took = []
    for _ in range(rounds):
        restore()
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def peak():
    """Return the most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ends(rows):
    """Return the keys between which one row of a hundred is."""
    first = rows  # the middle: numbers are even
    return f"{first:017}", f"{first + 2 * (rows // 100):017}"


def sleeper(folder, rows, files, rounds):
    """Measure this package."""
    import sleeper_nb as sl

    low, high = ends(rows)
    merge = pq.read_table(folder / "merge.parquet")
    points = [f"{2 * (rows * number // files):017}" for number in range(1, files)]
    with tempfile.TemporaryDirectory() as warehouse, sl.connect(warehouse) as session:
        schema = sl.Schema({"key": "string"}, {}, {"at": "timestamp", "n": "long", "value": "double", "text": "string"})
        table = session.create_table("t", schema, split_points=points)
        for number in range(files):
            table.ingest(pq.read_table(folder / f"{number:02}.parquet"))
        first = table.at().resolved.snapshot_id

        def restore():
            table.rollback(first)

        found = {
            "delete 1 % range": timed(rounds, restore, lambda: table.delete(f"key >= '{low}' AND key < '{high}'")),
            "update 1 % scattered": timed(
                rounds, restore, lambda: table.update({"value": "value + 1"}, "n % 200 = 22")
            ),
            "merge": timed(rounds, restore, lambda: table.upsert(merge)),
            "replace 1 % range": timed(
                rounds,
                restore,
                lambda: table.overwrite(
                    table.scan(region={"key": (low, high)}).to_arrow(), region={"key": (low, high)}
                ),
            ),
        }
        restore()
        found["delete 1 % scattered"] = timed(rounds, restore, lambda: table.delete("n % 200 = 14"))
        found["peak memory (MB)"] = peak()
        restore()
        versions = {"before": table.at().resolved.snapshot_id}
        versions["after"] = table.delete("n % 200 = 14").snapshot.id
        table.maintenance.compact(strategy="all")
        versions["compacted"] = table.at().resolved.snapshot_id
        found |= scans_of(session, table, versions, rounds)
    return found


def scans_of(session, table, versions, rounds):
    """Return the seconds of full scans of each version by each engine, measured in turns after one that warms up."""
    scans = {
        "Arrow": lambda number: table.at(number).scan().to_arrow(),
        "DuckDB": lambda number: session.sql(f"FROM t VERSION AS OF {number}", engine="duckdb").to_arrow(),
        "Spark": lambda number: session.sql(f"{EVERY_COLUMN} VERSION AS OF {number}", engine="spark").to_arrow(),
    }
    found = {}
    for engine, scan in scans.items():
        took = {name: [] for name in versions}
        for _ in range(rounds + 1):
            for name, number in versions.items():
                began = time.perf_counter()
                scan(number)
                took[name].append(time.perf_counter() - began)
        found |= {f"scan {engine} {name}": min(times[1:]) for name, times in took.items()}
    return found


def lance(folder, rows, files, rounds):
    """Measure Lance."""
    import lance as peer

    low, high = ends(rows)
    merge = pq.read_table(folder / "merge.parquet")
    with tempfile.TemporaryDirectory() as place:
        for number in range(files):
            peer.write_dataset(
                pq.read_table(folder / f"{number:02}.parquet"), place, mode="append" if number else "create"
            )
        first = peer.dataset(place).version

        def restore():
            peer.dataset(place, version=first).restore()

        def upsert():
            insert = peer.dataset(place).merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
            insert.execute(merge)

        def scan():
            return peer.dataset(place).to_table()

        found = {
            "delete 1 % range": timed(
                rounds, restore, lambda: peer.dataset(place).delete(f"key >= '{low}' AND key < '{high}'")
            ),
            "update 1 % scattered": timed(
                rounds, restore, lambda: peer.dataset(place).update({"value": "value + 1"}, "n % 200 = 22")
            ),
            "merge": timed(rounds, restore, upsert),
        }
        found["delete 1 % scattered"] = timed(rounds, restore, lambda: peer.dataset(place).delete("n % 200 = 14"))
        found["peak memory (MB)"] = peak()
        restore()
        found["scan Arrow before"] = timed(rounds, lambda: None, scan)
        peer.dataset(place).delete("n % 200 = 14")
        found["scan Arrow after"] = timed(rounds, lambda: None, scan)
    return found


def delta(folder, rows, files, rounds):
    """Measure delta-rs."""
    from deltalake import DeltaTable, write_deltalake

    low, high = ends(rows)
    merge = pq.read_table(folder / "merge.parquet")
    with tempfile.TemporaryDirectory() as place:
        for number in range(files):
            write_deltalake(place, pq.read_table(folder / f"{number:02}.parquet"), mode="append")
        first = DeltaTable(place).version()

        def restore():
            if DeltaTable(place).version() != first:
                DeltaTable(place).restore(first)

        def upsert():
            builder = DeltaTable(place).merge(merge, "t.key = s.key", source_alias="s", target_alias="t")
            builder.when_matched_update_all().when_not_matched_insert_all().execute()

        found = {
            "delete 1 % range": timed(
                rounds, restore, lambda: DeltaTable(place).delete(f"key >= '{low}' AND key < '{high}'")
            ),
            "delete 1 % scattered": timed(rounds, restore, lambda: DeltaTable(place).delete("n % 200 = 14")),
            "update 1 % scattered": timed(
                rounds, restore, lambda: DeltaTable(place).update({"value": "value + 1"}, predicate="n % 200 = 22")
            ),
            "merge": timed(rounds, restore, upsert),
        }
        return found | {"peak memory (MB)": peak()}


SYSTEMS = {"sleeper": sleeper, "lance": lance, "delta": delta}


def alone(system, folder, rows, files, rounds):
    """Print what one system takes, as JSON."""
    found = SYSTEMS[system](Path(folder), rows, files, rounds)
    print(json.dumps(found))


def compared(rows, files, rounds, systems):
    """Print a table of all systems for one number of rows."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), rows, files)
        results = {}
        for system in systems:
            options = ["--alone", system, folder, str(rows), str(files), str(rounds)]
            ran = subprocess.run(
                [sys.executable, "-m", __spec__.name, *options], capture_output=True, text=True, check=False
            )
            if ran.returncode:
                print(ran.stderr[-3000:])
                continue
            results[system] = json.loads(ran.stdout.splitlines()[-1])
    print(f"{rows:,} rows in {files} files; a merge of {rows // 100:,} rows")
    names = dict.fromkeys(name for found in results.values() for name in found)
    print(
        f"{'':26}"
        + "".join(f"{system:>12}" for system in results)
        + "".join(f"{'÷ ' + each:>10}" for each in systems[1:])
    )
    for name in names:
        line = f"{name:26}" + "".join(f"{found.get(name, float('nan')):12.3f}" for found in results.values())
        ours = results.get(systems[0], {}).get(name, float("nan"))
        line += "".join(f"{ours / results.get(each, {}).get(name, float('nan')):10.2f}" for each in systems[1:])
        print(line)


def main():
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--alone", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        system, folder, *numbers = given.alone
        alone(system, folder, *map(int, numbers))
        return
    for rows in given.rows:
        compared(rows, given.files, given.rounds, given.systems)


if __name__ == "__main__":
    main()
