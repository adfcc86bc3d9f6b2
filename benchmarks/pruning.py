"""One key and twenty, asked for in each way, in a table of many leaves with a file each; warm medians.

``python -m benchmarks.pruning [--leaves 1000] [--rows 1000] [--rounds 30] [--spark]``. The floor is
``scan(keys=…)``, which needs no condition; on Spark it is one bare Parquet file of the size of a leaf, read by stock
Spark in a process of its own. Then a join with a table of ten rows; its floor is the stock engine's join of the same
files, which it opens all. In the last column, the partitions that the answer read.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sleeper_nb as sl

SCHEMA = sl.Schema({"k": "long"}, {}, {"v": "string", "x": "double"})


def rows_of(first: int, count: int) -> pa.Table:
    """Return rows with consecutive keys."""
    keys = pa.array(range(first, first + count), pa.int64())
    values = pa.array([f"value {n % 977}" for n in range(first, first + count)])
    columns = [keys, values, pa.array([n / 7 for n in range(first, first + count)])]
    return pa.table(columns, schema=SCHEMA.arrow)


def medians(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the milliseconds of each call, in interleaved rounds after two for warming up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 2):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            if number >= 2:
                times[name].append(time.perf_counter() - began)
    return {name: 1000 * statistics.median(each) for name, each in times.items()}


def stock_spark() -> Any:
    """Return a Spark session that nothing of ours has set up."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()


def bare_spark(path: str, condition: str, rounds: int) -> float:
    """Return the milliseconds that stock Spark takes for one bare file."""
    spark = stock_spark()
    call = {"bare": lambda: spark.read.parquet(path).where(condition).toArrow()}
    return medians(call, rounds)["bare"]


JOIN = "SELECT a.k, a.v, b.n FROM {t} a JOIN {few} b ON a.k = b.k"


def bare_join(engine: str, files: dict[str, list[str]], rounds: int) -> float:
    """Return the milliseconds that a stock engine takes for the join."""
    if engine == "spark":
        spark = stock_spark()
        for name, paths in files.items():  # listed and their footers read once, as a table of Spark's own is
            spark.read.parquet(*paths).createOrReplaceTempView(name)
        return medians({"bare": lambda: spark.sql(JOIN.format(t="t", few="few")).toArrow()}, rounds)["bare"]
    import duckdb

    database = duckdb.connect()
    statement = JOIN.format(**{name: f"read_parquet({paths})" for name, paths in files.items()})
    return medians({"bare": lambda: database.sql(statement).to_arrow_table()}, rounds)["bare"]


def compare_joins(session: sl.Session, engines: list[Any], keys: list[int], rounds: int) -> None:
    """Print how long a join with a table of some keys takes."""
    few = session.create_table("few", sl.Schema({"k": "long"}, {}, {"n": "long"}))
    few.ingest([{"k": key, "n": number} for number, key in enumerate(keys)])
    files = {}
    for name in ("t", "few"):
        storage, listed = session.table(name)._store.storage, session.table(name).inspect.files().to_arrow()["filename"]
        files[name] = [storage.locate(path) for path in listed.to_pylist()]
    for engine in engines:

        def ours(engine: Any = engine) -> sl.QueryResult:
            return session.sql(JOIN.format(t="t", few="few"), engine=engine)

        read = {"ours": partitions(ours())}
        floor = {"stock, the same files": in_a_process(bare_join, engine, files, rounds)}
        show(
            f"a join with {len(keys)} rows on {engine}",
            floor | medians({"ours": lambda: ours().to_arrow()}, rounds),
            read,
        )


def in_a_process(function: Callable[..., float], *arguments: Any) -> float:
    """Return what a function returns in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def show(title: str, times: dict[str, float], read: dict[str, str]) -> None:
    """Print a row for each call, with its ratio to the first one."""
    floor = next(iter(times.values()))
    print(f"\n{title:46}{'ms':>9}{'ratio':>8}  partitions")
    for name, each in times.items():
        print(f"{name:46}{each:9.1f}{each / floor:8.2f}  {read.get(name, '')}")


def partitions(result: sl.QueryResult) -> str:
    """Return how many partitions an answer reads."""
    return str(result.cost().to_dict()["reads"][0]["partitions"])


def main() -> None:
    """Print how long each way takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--leaves", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    one = given.rows * (given.leaves // 2) + 7
    many = [given.rows * (given.leaves * n // 20) + n for n in range(20)]
    in_many = f"k IN ({', '.join(map(str, many))})"
    with tempfile.TemporaryDirectory() as folder, sl.connect(Path(folder) / "w") as session:
        points = [given.rows * n for n in range(1, given.leaves)]
        table = session.create_table("t", SCHEMA, split_points=points)
        table.ingest(rows_of(0, given.leaves * given.rows))

        def sql(condition: str, engine: Any) -> Callable[[], sl.QueryResult]:
            return lambda: session.sql(f"SELECT * FROM t WHERE {condition}", engine=engine)

        def run(query: Callable[[], sl.QueryResult]) -> Callable[[], pa.Table]:
            return lambda: query().to_arrow()

        for title, keys, condition in (("one key", one, f"k = {one}"), ("twenty keys", many, in_many)):
            calls = {
                "scan(keys=…)": lambda keys=keys: table.scan(keys=keys).to_arrow(),
                "scan(where=…)": lambda condition=condition: table.scan(where=condition).to_arrow(),
                "sql on DuckDB": run(sql(condition, "duckdb")),
            }
            if keys is one:  # a statement that was run before is not judged again, also with other parameters
                new = count(one + 1)
                calls["sql on DuckDB, another key each time"] = lambda new=new: sql(
                    f"k = {next(new)}", "duckdb"
                )().to_arrow()
                calls["sql on DuckDB, another :key each time"] = lambda new=new: session.sql(
                    "SELECT * FROM t WHERE k = :key", engine="duckdb", params={"key": next(new)}
                ).to_arrow()
            read = {"sql on DuckDB": partitions(sql(condition, "duckdb")())}
            show(f"{title}, {given.leaves:,} leaves", medians(calls, given.rounds), read)
        if given.spark:
            pq.write_table(rows_of(one - 7, given.rows), path := f"{folder}/bare.parquet")
            ours = medians({"sql on Spark": run(sql(f"k = {one}", "spark"))}, given.rounds)
            floor = {"one bare file, stock Spark": in_a_process(bare_spark, path, f"k = {one}", given.rounds)}
            show("one key on Spark", floor | ours, {"sql on Spark": partitions(sql(f"k = {one}", "spark")())})
        compare_joins(session, ["duckdb", "spark"] if given.spark else ["duckdb"], many[::2], given.rounds)


if __name__ == "__main__":
    main()
