"""Bulk import of Parquet files or a Spark DataFrame into many leaves, compared with stock Spark in its own process.

``python -m benchmarks.bulk_import [--rows 5000000] [--leaves 32] [--shape even] [--data files] [--ways peer threads]``:
each way runs once, in a process of its own. The peer is Spark with its own settings: it samples the keys, partitions by
range, sorts and writes a folder. Ours knows its split points, checks the order, writes checksums, statistics and a page
index, and commits. ``threads`` are those of one process, ``tasks`` those of Spark, which also load DataFrames.
``threads-unmerged`` and ``tasks-unmerged`` leave the merge of their sorted runs to a compaction, which then runs, in
this process, into one file a leaf; of more than 20 runs they merge all themselves, unless ``--memory`` is larger.

``--data frame`` is a DataFrame of the files, which are read directly; ``--data query`` is one that Spark must compute.

Printed for each way: seconds and CPU seconds of all processes, both without the start of Spark, and the most memory
that one Python process, and the JVM, had. ``--input FOLDER`` keeps the input for the next run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sleeper_nb as sl
from benchmarks.ingest import PROPERTY, SCHEMA, STRATEGIES, split_points, unsorted_rows
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.model.properties import IMPORT_TASK_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES, AT_ONCE = 4, 500_000
SKEW = 0.8
UNMERGED = "-unmerged"
_OURS = ("threads", f"threads{UNMERGED}", "tasks", f"tasks{UNMERGED}")
WAYS = {"files": ("peer", *_OURS), "frame": ("peer", *_OURS), "query": ("peer", *_OURS[2:])}


def write_input(folder: Path, count: int, leaves: int, *, skewed: bool = False, first: int = 0) -> None:
    """Write files of unsorted rows, from a number on; in skewed ones, the first leaf gets four fifths of the rows."""
    folder.mkdir(parents=True)
    for number in range(first, first + FILES):
        with pq.ParquetWriter(folder / f"{number}.parquet", SCHEMA.arrow) as writer:
            for start in range(0, count // FILES, AT_ONCE):
                seed = number * 1_000_000 + start // AT_ONCE
                rows = unsorted_rows(min(AT_ONCE, count // FILES - start), seed)
                writer.write_table(with_skew(rows, leaves, seed) if skewed else rows, row_group_size=AT_ONCE // 4)


def with_skew(rows: pa.Table, leaves: int, seed: int) -> pa.Table:
    """Return the rows with keys of the first leaf in four fifths of them."""
    random = np.random.default_rng(seed)
    keys = pa.array([f"{number:012x}" for number in random.integers(0, 2**48 // leaves, rows.num_rows // 3)])
    chosen = pa.array(random.random(rows.num_rows) < SKEW)
    of_first = keys.take(pa.array(random.integers(0, len(keys), rows.num_rows)))
    return rows.set_column(0, SCHEMA.arrow.field(0), pc.if_else(chosen, of_first, rows["key"].combine_chunks()))


Taken = tuple[float, dict[str, float], int, str]
"""Seconds, CPU seconds, the number of files, and what else there is to say."""


def by_peer(source: Path, target: Path, given: argparse.Namespace) -> Taken:
    """Let stock Spark sort and write the rows."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[*]").getOrCreate()
    keys, used = SCHEMA.sort_order, Used()
    frame = frame_of(spark, source, given.data).repartitionByRange(given.leaves, *keys).sortWithinPartitions(*keys)
    frame.write.option("compression", "zstd").parquet(str(target))
    taken = used.until_now()
    spark.stop()
    return *taken, len(list(target.glob("*.parquet"))), ""


def frame_of(spark: Any, source: Path, data: str) -> DataFrame:
    """Return the rows as a frame: a query changes a column of most rows, so that only Spark can compute it."""
    frame = spark.read.parquet(str(source))
    if data != "query":
        return frame
    from pyspark.sql import functions

    return frame.withColumn("amount", functions.col("amount") * 2)


def by_ours(source: Path, target: Path, given: argparse.Namespace) -> Taken:
    """Import the rows, and compact the table where that merges their files."""
    way, merge = given.way.removesuffix(UNMERGED), not given.way.endswith(UNMERGED)
    with sl.connect(target) as session:
        properties = {PROPERTY: given.strategy, IMPORT_TASK_BYTES: str(given.memory)}
        table = session.create_table("t", SCHEMA, split_points(given.leaves), properties=properties)
        data = str(source)
        if way == "tasks":
            spark = session.spark_session
            data = data if given.data == "files" else frame_of(spark, source, given.data)
        engines = {"threads": "local" if given.data == "files" else "auto", "tasks": "spark"}
        engine, used = engines[way], Used()
        made = table.bulk_import(data, engine=engine, merge=merge)
        taken = used.until_now()
        if table.scan().count() != given.rows // FILES * FILES:
            raise SystemExit("rows are missing")
        assert made.snapshot is not None
        return *taken, made.snapshot.added_files, "" if merge else _compacted(table, made)


def _compacted(table: sl.Table, made: LoadReport) -> str:
    """Compact a table into one file a leaf, if its load left that; return what it took, or why it was not left."""
    if made.to_merge is None:
        return made.runs
    used = Used()
    table.maintenance.compact("all", engine="local")
    seconds, cpu = used.until_now()
    return f"compaction {seconds:.1f} s, CPU {sum(cpu.values()):.1f} s"


class Used:
    """What this process and its descendants use from now on."""

    def __init__(self) -> None:
        self.seen = Processes(os.getpid())
        self.seen.look()
        self.cpu, self.began = self.seen.cpu_by_kind(), time.perf_counter()
        self.seen.thread.start()

    def until_now(self) -> tuple[float, dict[str, float]]:
        """Return the seconds, and the CPU seconds of Java and of Python."""
        taken = time.perf_counter() - self.began
        self.seen.ended.set()
        self.seen.look()
        return taken, {kind: used - self.cpu[kind] for kind, used in self.seen.cpu_by_kind().items()}


class Processes:
    """What a process and its descendants use, looked at often; their peaks outlive them."""

    def __init__(self, pid: int) -> None:
        self.pid, self.memory, self.ended = pid, {}, threading.Event()
        self.cpu = {"python": {}, "java": {}}
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self.ended.wait(0.05):
            self.look()

    def look(self) -> None:
        """Note what each process uses now."""
        for pid in self._pids():
            with contextlib.suppress(OSError, IndexError, KeyError, ValueError):
                self._look(pid)

    def cpu_by_kind(self) -> dict[str, float]:
        """Return the CPU seconds of Java, and of Python, up to now."""
        return {kind: sum(each.values()) for kind, each in self.cpu.items()}

    def _pids(self) -> list[int]:
        found = [self.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (task / "children").read_text().split())
        return found

    def _look(self, pid: int) -> None:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        kind = {"java": "java", "python": "python"}[status["Name"].strip()[:6].rstrip("3")]  # no other is measured
        peak = int(status["VmHWM"].split()[0]) >> 10
        self.memory[kind] = max(self.memory.get(kind, 0), peak)
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        self.cpu[kind][pid] = (int(times[11]) + int(times[12])) / 100


def run_apart(way: str, source: Path, given: argparse.Namespace) -> None:
    """Run a way in a process of its own, and print what it took."""
    command = [sys.executable, "-m", "benchmarks.bulk_import", "--way", way, "--input", str(source)]
    for name in ("rows", "leaves", "data", "strategy", "memory"):
        command += [f"--{name}", str(getattr(given, name))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    seen = Processes(process.pid)
    seen.thread.start()
    output, _ = process.communicate()
    seen.ended.set()
    if process.returncode:
        raise SystemExit(process.returncode)
    taken, cpu, files, note = json.loads(output.splitlines()[-1])
    memory = ", ".join(f"{kind} {peak:,} MB" for kind, peak in sorted(seen.memory.items(), reverse=True))
    rate = given.rows / taken / 1000
    print(
        f"{way:16} {taken:6.1f} s {rate:7,.0f} k rows/s  CPU {sum(cpu.values()):6.1f} s (java {cpu['java']:5.1f})  "
        f"{files:3} files  {memory}{note and f'  {note}'}",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--leaves", type=int, default=32)
    options.add_argument("--shape", choices=["even", "skewed"], default="even")
    options.add_argument("--data", choices=WAYS, default="files")
    options.add_argument("--ways", nargs="+", default=[])
    options.add_argument("--input", type=Path)
    options.add_argument("--memory", type=int, default=256 << 20, help="of each thread or task, in bytes")
    options.add_argument("--strategy", choices=STRATEGIES, default=STRATEGIES[0])
    options.add_argument("--way", help=argparse.SUPPRESS)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if given.way:
            target = Path(name) / "target"
            by_it = by_peer if given.way == "peer" else by_ours
            print(json.dumps(by_it(given.input, target, given)))
            return
        source = (given.input or Path(name)) / f"{given.shape}-{given.rows}-{given.leaves}"
        if not source.exists():
            write_input(source, given.rows, given.leaves, skewed=given.shape == "skewed")
        print(f"{given.rows:,} rows, {given.shape}, of {given.data}, into {given.leaves} leaves", flush=True)
        for way in given.ways or WAYS[given.data]:
            run_apart(way, source, given)


if __name__ == "__main__":
    main()
