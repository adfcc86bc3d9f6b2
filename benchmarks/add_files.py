"""Add many sorted Parquet files to a table without a copy, compared with reading all their footers.

``python -m benchmarks.add_files [--files 10000] [--rows 1000] [--leaves 16] [--rounds 3]``: medians of interleaved
rounds. The floor reads the footers with PyArrow in two threads; the second floor also reads the key columns, which
alone prove that a file is sorted. Ours also compares columns, types and nulls, cuts by leaf, and commits.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

import sleeper_nb as sl
from benchmarks.ingest import SCHEMA, seconds, split_points, unsorted_rows

KEYS = ["key", "at"]


def write_files(folder: Path, files: int, rows: int) -> None:
    """Write files of random rows, each sorted by the keys of `SCHEMA`; of many files, copies of a few contents."""
    written = []
    for seed in range(min(files, 50)):
        sorted_rows = unsorted_rows(rows, seed).sort_by([(name, "ascending") for name in KEYS])
        written.append(folder / f"part-{seed:05d}.parquet")
        pq.write_table(sorted_rows, written[-1])
    for number in range(len(written), files):
        shutil.copyfile(written[number % len(written)], folder / f"part-{number:05d}.parquet")


def read_footers(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(pq.read_metadata, sorted(folder.iterdir())))


def read_keys(folder: Path) -> None:
    def read(path: Path) -> None:
        with pq.ParquetFile(path) as file:
            file.read(KEYS, use_threads=False)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read, sorted(folder.iterdir())))


def add(folder: Path, leaves: int) -> float:
    """Return the seconds to add the files to a new table."""
    with tempfile.TemporaryDirectory() as warehouse, sl.connect(warehouse, data_paths=[folder]) as session:
        table = session.create_table("t", SCHEMA, split_points=split_points(leaves))
        took = seconds(lambda: table.add_files(folder))
        expected = sum(pq.read_metadata(path).num_rows for path in folder.iterdir())
        assert table.at().state.totals().rows == expected
        return took


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=10_000)
    options.add_argument("--rows", type=int, default=1_000)
    options.add_argument("--leaves", type=int, default=16)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, given.files, given.rows)
        took: dict[str, list[float]] = {"footers": [], "footers and keys": [], "add-files": []}
        for _ in range(given.rounds):
            took["footers"].append(seconds(lambda: read_footers(folder)))
            took["footers and keys"].append(seconds(lambda: read_keys(folder)))
            took["add-files"].append(add(folder, given.leaves))
    medians = {what: statistics.median(each) for what, each in took.items()}
    print(f"{given.files:,} files of {given.rows:,} rows, {given.leaves} leaves")
    for what, median in medians.items():
        ratios = (f"{median / medians[floor]:.1f} × {floor}" for floor in ("footers", "footers and keys"))
        print(f"{what:18}{median:8.2f} s   {', '.join(ratios)}")


if __name__ == "__main__":
    main()
