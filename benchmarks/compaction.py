"""Compaction of sorted files into one, compared with a DuckDB copy of the same files without sorting, in one run.

``python -m benchmarks.compaction [--files 10] [--rows 1000000] [--leaves 1] [--rounds 3] [--spark] [--workers 2]``:
medians of alternating rounds, each in its own process, with its peak memory and the CPU seconds of all its processes.
Ours is the time of ``table.compact`` as a user calls it: plan, claim, merge, the checks of order and row count, and the
commit. On Spark the session is warm, and the memory is that of the largest Python worker. ``--workers 2`` adds a
standalone cluster of a master and two workers of one core each, which see the folder but do not have our package, and
``local[2]`` to compare it with: each leaf is a job, so give as many leaves at least.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import queue
import resource
import shutil
import statistics
import tempfile
import threading
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import sleeper_nb as sl
from benchmarks.bulk_import import Used

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


def prepare(folder, files, rows, leaves):
    """Make a table; every ingest is one file a leaf. A small second table warms up Spark."""
    points = [f"user-{10**11 + 9 * 10**11 * number // leaves}" for number in range(1, leaves)]
    with sl.connect(folder) as session:
        for name, count in (("t", rows), ("warm", 1000)):
            table = session.create_table(name, SCHEMA, points)
            for number in range(files if name == "t" else 2):
                table.ingest(rows_of(number, count))


def compacted(folder, which, rows):
    """Compact the table; return the seconds, and the CPU seconds of all processes."""
    import datafusion  # noqa: F401 - a notebook has it in memory after its first query

    engine = "local" if which == "local" else "spark"
    with contextlib.ExitStack() as stack:
        config = config_of(which, Path(folder), stack)
        session = stack.enter_context(sl.connect(folder, spark_config=config))
        session.table("warm").maintenance.compact("all", engine=engine)
        table, used = session.table("t"), Used()
        report = table.maintenance.compact("all", engine=engine)
        seconds, cpu = used.until_now()
        assert report.rows == table.scan().count() == rows
    return seconds, sum(cpu.values())


def config_of(which, folder, stack):
    """Return the settings of Spark; a cluster is started first."""
    if not which.endswith(" workers"):
        return {"spark.master": which} if which.startswith("local[") else {}
    from tests.servers.standalone import Standalone, bare_python

    place = folder.with_name(f"{folder.name}-cluster")
    place.mkdir(exist_ok=True)
    cluster = Standalone(place, stack, {})
    for number in range(int(which.split()[0])):
        cluster.start_worker(f"worker-{number}", cores=1, memory="2g")
    return {
        "spark.master": cluster.master, "spark.executor.memory": "1g", "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": str(bare_python(place / "python")),
    }  # fmt: skip


def copied(folder):
    """Copy the rows as DuckDB likes to; return the seconds, and the CPU seconds."""
    import duckdb

    files = [str(path) for path in Path(folder).glob("*/*/data/**/*.parquet") if path.stat().st_size > 2**17]
    used = Used()
    duckdb.execute(
        f"COPY (SELECT * FROM read_parquet({files})) TO '{folder}/copy.parquet' (FORMAT parquet, COMPRESSION zstd)"
    )
    seconds, cpu = used.until_now()
    return seconds, sum(cpu.values())


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
    on_spark = which not in {"DuckDB copy", "local"}
    if on_spark:
        watcher.start()
    seconds, cpu = copied(folder) if which == "DuckDB copy" else compacted(folder, which, rows)
    over.set()
    if on_spark:
        watcher.join()
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    results.put((seconds, cpu, peak[0] / 2**20 if on_spark else own))


def alone(*arguments):
    """Run one round in a new process and return what it tells."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=work, args=(results, *arguments))
    process.start()
    while True:
        with contextlib.suppress(queue.Empty):
            found = results.get(timeout=1)
            break
        if process.exitcode:
            raise SystemExit(process.exitcode)
    process.join()
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=10)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--leaves", type=int, default=1)
    options.add_argument("--spark", action="store_true")
    options.add_argument("--workers", type=int, default=0)
    given = options.parse_args()
    ways = ["DuckDB copy", "local"] + ["spark"] * given.spark
    if given.workers:
        ways += [f"local[{given.workers}]", f"{given.workers} workers"]
    found = {which: [] for which in ways}
    with tempfile.TemporaryDirectory() as name:
        made, folder = Path(name) / "made", Path(name) / "round"
        prepare(made, given.files, given.rows, given.leaves)
        for _ in range(given.rounds):
            for which, rounds in found.items():
                shutil.copytree(made, folder)
                rounds.append(alone(which, str(folder), given.files * given.rows))
                shutil.rmtree(folder)
    floor = statistics.median(seconds for seconds, _, _ in found["DuckDB copy"])
    print(f"{given.files} loads of {given.rows:,} rows, {given.leaves} leaves, {given.rounds} rounds")
    for which, rounds in found.items():
        seconds, used, peak = (statistics.median(each) for each in zip(*rounds, strict=True))
        print(f"{which:12} {seconds:6.2f} s {seconds / floor:5.2f} x  CPU {used:6.2f} s  peak {peak:5.0f} MiB")


if __name__ == "__main__":
    main()
