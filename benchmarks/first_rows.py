"""How soon the first rows of a large result are shown, and how little is read for them.

``python -m benchmarks.first_rows [--rows 1000000] [--rounds 9] [--spark]``: medians of interleaved rounds of
``sql("SELECT * FROM t")`` until a notebook can show it; in the same run the whole result, and the engine alone over the
same files with ``LIMIT``. Bytes are those that this process reads (from Linux), so for DuckDB only.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA, rows_of
from benchmarks.lookups import bytes_read
from sleeper_nb.display.preview import DEFAULT_DISPLAY
from sleeper_nb.query import EngineName

SQL = "SELECT * FROM t"
FIRST = "the first rows, ours"


def ways(session: sl.Session, engine: EngineName, files: list[str]) -> dict[str, Callable[[], object]]:
    """Return what is timed, by what it is called."""
    if engine == "duckdb":
        import duckdb

        def bare() -> object:
            return duckdb.connect().read_parquet(files).limit(DEFAULT_DISPLAY.rows + 1).to_arrow_table()
    else:
        spark = session.spark_session

        def bare() -> object:
            return spark.read.parquet(*files).limit(DEFAULT_DISPLAY.rows + 1).toArrow()

    return {
        FIRST: lambda: repr(session.sql(SQL, engine=engine)),
        "the first rows, bare": bare,
        "all rows, ours": lambda: session.sql(SQL, engine=engine).to_arrow(),
    }


def measured(run: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float, float]]:
    """Return for each way its median and greatest seconds, and the median of the bytes it reads."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in run}
    for number in range(rounds + 1):
        for name, action in run.items():
            read, began = bytes_read(), time.perf_counter()
            action()
            if number:  # the first one warms up
                found[name].append((time.perf_counter() - began, bytes_read() - read))
    columns = {name: list(zip(*pairs, strict=True)) for name, pairs in found.items()}
    return {n: (statistics.median(took), max(took), statistics.median(read)) for n, (took, read) in columns.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--spark", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, sl.connect(f"{folder}/w") as session:
        table = session.create_table("t", SCHEMA, ["user-3", "user-5", "user-7"])
        table.ingest(rows_of(0, given.rows))
        files = [str(path) for path in Path(folder, "w").rglob("data/**/*.parquet")]
        engines: tuple[EngineName, ...] = ("duckdb", "spark") if given.spark else ("duckdb",)
        for engine in engines:
            print(f"{engine}: {given.rows:,} rows in {len(files)} files, {given.rounds} rounds")
            found = measured(ways(session, engine, files), given.rounds)
            ours = found[FIRST][0]
            for name, (seconds, most, read) in found.items():
                print(
                    f"  {name:22} {1000 * seconds:8.1f} ms, at most {1000 * most:8.1f}   "
                    f"first rows / it {ours / seconds:5.2f}   reads {read / 2**10:10,.0f} KiB"
                )


if __name__ == "__main__":
    main()
