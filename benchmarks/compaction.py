"""Compaction of sorted files into one, compared with a DuckDB copy of the same files without sorting, in one run.

``python -m benchmarks.compaction [--files 10] [--rows 1000000] [--rounds 3] [--spark]``: medians of alternating
rounds, each in its own process, with its peak memory. Ours is the time of ``table.compact`` as a user calls it: plan,
claim, merge, the checks of order and row count, and the commit. On Spark the session is warm, and the memory is that of
the Python worker, which does the work.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import sleeper_nb as sl

SCHEMA = sl.Schema({"key": "string"}, values={"number": "long", "price": "double", "city": "string"})
CITIES = np.array([f"city of {name}" for name in ("Aachen", "Bath", "Cork", "Delft", "Essen", "Faro", "Genoa", "Hull")])


def rows_of(number, count):
    """Return rows whose keys are spread over the whole table, as those of every file of a leaf are."""
    random = np.random.default_rng(number)
    return pa.table(
        {
            "key": np.char.add("user-", random.integers(0, 10**12, count).astype(str)),
            "number": random.integers(0, 10**6, count),
            "price": random.normal(100, 20, count).round(2),
            "city": CITIES[random.integers(0, len(CITIES), count)],
        }
    )


def prepare(folder, files, rows):
    """Make a table; every file is one ingest. A small second one warms up Spark."""
    with sl.connect(folder) as session:
        for name, count in (("t", rows), ("warm", 1000)):
            table = session.create_table(name, SCHEMA)
            for number in range(files if name == "t" else 2):
                table.ingest(rows_of(number, count))


def compacted(folder, engine, rows):
    """Compact the table and return the seconds."""
    import datafusion  # noqa: F401 - a notebook has it in memory after its first query

    with sl.connect(folder) as session:
        session.table("warm").compact("all", engine=engine)
        table = session.table("t")
        began = time.perf_counter()
        report = table.compact("all", engine=engine)
        seconds = time.perf_counter() - began
        assert report.rows == table.scan().count() == rows
    return seconds


def copied(folder):
    """Copy the rows as DuckDB likes to, and return the seconds."""
    import duckdb

    files = [str(path) for path in Path(folder).glob("*/*/data/**/*.parquet") if path.stat().st_size > 2**20]
    began = time.perf_counter()
    duckdb.execute(
        f"COPY (SELECT * FROM read_parquet({files})) TO '{folder}/copy.parquet' (FORMAT parquet, COMPRESSION zstd)"
    )
    return time.perf_counter() - began


def work(results, which, folder, rows):
    """Run one round in this process; tell its seconds, the seconds of processors, and the peak memory in MiB."""
    peak, over = [0], threading.Event()

    def watch():  # the workers of Spark are the children of a child
        while not over.wait(0.05):
            for child in psutil.Process().children(recursive=True):
                try:
                    if "python" in child.name():
                        peak[0] = max(peak[0], child.memory_info().rss)
                except psutil.Error:
                    pass

    watcher = threading.Thread(target=watch)
    if which == "spark":
        watcher.start()
    seconds = copied(folder) if which == "DuckDB copy" else compacted(folder, which, rows)
    over.set()
    if which == "spark":
        watcher.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    own = used.ru_maxrss / 1024
    results.put((seconds, used.ru_utime + used.ru_stime, peak[0] / 2**20 if which == "spark" else own))


def alone(*arguments):
    """Run one round in a new process and return what it tells."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=work, args=(results, *arguments))
    process.start()
    found = results.get(timeout=600)
    process.join()
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=10)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--spark", action="store_true")
    given = options.parse_args()
    found = {"DuckDB copy": [], "local": [], **({"spark": []} if given.spark else {})}
    with tempfile.TemporaryDirectory() as name:
        made, folder = Path(name) / "made", Path(name) / "round"
        prepare(made, given.files, given.rows)
        for _ in range(given.rounds):
            for which, rounds in found.items():
                shutil.copytree(made, folder)
                rounds.append(alone(which, str(folder), given.files * given.rows))
                shutil.rmtree(folder)
    floor = statistics.median(seconds for seconds, _, _ in found["DuckDB copy"])
    print(f"{given.files} files of {given.rows:,} rows, {given.rounds} rounds")
    for which, rounds in found.items():
        seconds, used, peak = (statistics.median(each) for each in zip(*rounds, strict=True))
        tail = "" if which == "spark" else f"  processors {used:5.1f} s"
        print(f"{which:12} {seconds:6.2f} s {seconds / floor:5.2f} x  peak {peak:5.0f} MiB{tail}")


if __name__ == "__main__":
    main()
