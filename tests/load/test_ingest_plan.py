from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.progress import Silent
from sleeper_nb.table import Table

SCHEMA = sl.Schema({"carrier": "string", "flight": "int"}, {"at": "timestamp"}, {"delay": "double?", "seats": "int"})
PROPERTY = "sleeper.table.ingest.file.writing.strategy"
STRATEGIES = ["one_file_per_leaf", "one_reference_per_leaf"]


def flights(*carriers: str, **changes: Any) -> pa.Table:
    count = len(carriers)
    columns = {
        "carrier": pa.array(carriers, pa.string()),
        "flight": pa.array(range(count), pa.int32()),
        "at": pa.array([0] * count, pa.timestamp("us", "UTC")),
        "delay": pa.array([None] * count, pa.float64()),
        "seats": pa.array([100] * count, pa.int32()),
    }
    return pa.table({name: value for name, value in {**columns, **changes}.items() if value is not None})


@pytest.fixture(params=STRATEGIES)
def table(session: sl.Session, request: pytest.FixtureRequest) -> Table:
    return session.create_table("t", SCHEMA, ["DL", "UA"], properties={PROPERTY: request.param})


def everything_below(folder: Path) -> dict[str, int]:
    return {
        str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file() and "catalog" not in path.name
    }


def as_parquet(rows: pa.Table, folder: Path) -> str:
    pq.write_table(rows, folder / "in.parquet", row_group_size=2)
    return str(folder / "in.parquet")


KINDS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "memory": lambda rows, _: rows,
    "parquet": as_parquet,
    "parquet without statistics": lambda rows, folder: (
        pq.write_table(rows, folder / "in.parquet", write_statistics=False) or folder / "in.parquet"
    ),
    "several": lambda rows, folder: [as_parquet(rows.slice(0, 2), folder), rows.slice(2)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_tells_rows_leaves_and_files_and_changes_nothing(table: Table, tmp_path: Path, kind: str):
    data = KINDS[kind](flights("AA", "UA", "ZZ", "DL", "AA"), tmp_path)
    before = everything_below(tmp_path)
    plan = table.ingest(data, dry_run=True).plan
    assert (plan.rows, plan.differences, plan.through_spark, plan.snapshot_id) == (5, (), False, 1)
    assert [(leaf.region, leaf.rows) for leaf in plan.leaves] == [
        ("carrier (-∞, DL)", 2),
        ("carrier [DL, UA)", 1),
        ("carrier [UA, ∞)", 2),
    ]
    assert plan.files == (3 if table.at().properties[PROPERTY] == "one_file_per_leaf" else 1)
    assert everything_below(tmp_path) == before
    assert table.at().resolved.snapshot_id == 1
    assert "5 rows" in repr(plan)


WRONG = {
    "missing": {"seats": None},
    "null": {"seats": pa.array([1, None, 3], pa.int32())},
    "too wide": {"flight": pa.array([1, 2**40, 3])},
    "fraction": {"seats": pa.array([1.5, 2, 3])},
    "no number": {"delay": pa.array(["much", "1", "2"])},
    "unknown": {"other": pa.array([1, 2, 3])},
    "a number for a moment": {"at": pa.array([1, 2, 3])},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faults", [*[[each] for each in WRONG], list(WRONG)[1:]], ids="+".join)
def test_a_plan_tells_all_differences_and_a_run_raises_the_first(
    table: Table, tmp_path: Path, kind: str, faults: list[str]
):
    changes = {name: value for fault in faults for name, value in WRONG[fault].items()}
    data = KINDS[kind](flights("AA", "UA", "ZZ", **changes), tmp_path)
    plan = table.ingest(data, dry_run=True).plan
    assert {d.column for d in plan.differences} == set(changes)
    assert (plan.leaves, plan.files) == ((), 0)
    with pytest.raises(sl.InvalidInput) as error:
        table.ingest(data)
    assert error.value.message == plan.differences[0].error.message
    assert plan.differences[0].change in (error.value.hint or "")
    assert table.at().resolved.snapshot_id == 1
    for difference in plan.differences:
        assert difference.kind in repr(plan)
        assert difference is plan.differences[0] or difference.problem in error.value.place


def test_a_misspelt_column_is_told_with_its_nearest_name(table: Table):
    rows = flights("AA").rename_columns(["carier", "flight", "at", "Delay", "seats"])
    told = {d.column: d.change for d in table.ingest(rows, dry_run=True).plan.differences}
    assert told == {
        "carrier": "rename 'carier' to 'carrier'",
        "carier": "rename it to 'carrier'",
        "Delay": "rename it to 'delay', or add by_name=True",
    }


def test_a_file_is_named_with_its_difference(table: Table, tmp_path: Path):
    (tmp_path / "a.csv").write_text("carrier,flight,at,seats\nAA,x,noon,many\n")
    (tmp_path / "b.json").write_text('{"carrier": "AA", "flight": 1.5, "at": "2026-01-01", "sets": 1}\n')
    plan = table.ingest([str(tmp_path / "a.csv"), tmp_path / "b.json"], dry_run=True).plan
    assert [(d.column, Path(d.source).name) for d in plan.differences] == [
        ("flight", "a.csv"), ("at", "a.csv"), ("seats", "a.csv"), ("seats", "b.json"), ("sets", "b.json"),
        ("flight", "b.json"),
    ]  # fmt: skip
    assert "a.csv" in repr(plan)


def test_only_columns_that_may_differ_are_read(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = as_parquet(flights("AA", "UA"), tmp_path)
    read = []

    class Watched(pq.ParquetFile):
        def iter_batches(self, *args: Any, columns: Any = None, **options: Any) -> Any:
            read.extend(columns)
            return super().iter_batches(*args, columns=columns, **options)

    monkeypatch.setattr(pq, "ParquetFile", Watched)
    assert table.ingest(path, dry_run=True).rows == 2
    assert read == ["carrier", "flight", "at", "seats"]


def test_what_can_be_read_only_once_is_not_used_up(table: Table):
    reader = flights("AA").to_reader()
    with pytest.raises(sl.InvalidInput, match="only once"):
        table.ingest(reader, dry_run=True)
    assert table.ingest(reader).rows == 1


def test_no_rows_plan_no_file(table: Table):
    plan = table.ingest([], dry_run=True).plan
    assert (plan.rows, plan.files, plan.leaves, plan.differences) == (0, 0, (), ())


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "carrier": st.sampled_from(["", "AA", "DL", "UA", "é", "é", None]),
            "flight": st.sampled_from([0, -1, 1, -(2**31), 2**31 - 1, 2**31]),
        },
        optional={"seats": st.sampled_from([1, 2, 1.5, None])},
    ),
    max_size=5,
)


@given(rows=ROWS, strategy=st.sampled_from(STRATEGIES), points=st.sampled_from([[], ["DL"], ["DL", "UA", "é"]]))
def test_a_dry_run_equals_the_real_run(tmp_path_factory: Any, rows: list[Any], strategy: str, points: list[str]):
    schema = sl.Schema({"carrier": "string", "flight": "int"}, {}, {"seats": "int?"})
    with sl.connect(tmp_path_factory.mktemp("w")) as session:
        table = session.create_table("t", schema, points, properties={PROPERTY: strategy})
        plan = table.ingest(rows, dry_run=True).plan
        if plan.differences:
            with pytest.raises(sl.InvalidInput) as error:
                table.ingest(rows)
            assert error.value.message == plan.differences[0].error.message
            return
        made = table.ingest(rows)
        active = table.at().state.files.active.to_pylist()
        assert (plan.rows, plan.files) == (made.rows, len({row["filename"] for row in active}))
        assert {leaf.partition_id: leaf.rows for leaf in plan.leaves} == {r["partition_id"]: r["rows"] for r in active}


KEYS = st.lists(st.tuples(st.sampled_from("abmz"), st.integers(0, 2)), max_size=6)


@given(loads=st.lists(st.tuples(KEYS, st.sampled_from(sorted(KINDS))), min_size=1, max_size=3))
def test_a_dry_run_looks_up_unique_keys_as_the_real_run_does(tmp_path_factory: Any, loads: list[Any]):
    schema = sl.Schema({"k": "string", "n": "int"}, unique_keys=True)
    with sl.connect(tmp_path_factory.mktemp("w")) as session:
        table = session.create_table("t", schema, ["b", "m"])
        held: set[tuple[str, int]] = set()
        for keys, kind in loads:
            rows = pa.table([[k for k, _ in keys], [n for _, n in keys]], pa.schema([("k", "string"), ("n", "int32")]))
            data = KINDS[kind](rows, tmp_path_factory.mktemp("data"))
            plan = table.ingest(data, dry_run=True).plan
            counts = {each.kind: each.values for each in plan.differences}
            repeated, there = len(keys) - len(set(keys)), sum(key in held for key in set(keys))
            there += sum(key in held for i, key in enumerate(keys) if key in keys[:i])
            assert counts.get("an earlier row has the row key", 0) == repeated
            assert counts.get("the table already has the row key", 0) == there
            if plan.differences:
                with pytest.raises(sl.InvalidInput, match="unique keys"):
                    table.ingest(data)
                continue
            table.ingest(data)
            held |= set(keys)


def test_a_row_key_that_is_taken_is_named_with_its_file_and_line(session: sl.Session, tmp_path: Path):
    table = session.create_table("t", sl.Schema({"k": "string"}, unique_keys=True))
    table.ingest([{"k": "there"}])
    (tmp_path / "a.csv").write_text("k\nnew\n")
    (tmp_path / "b.csv").write_text("k\nmore\nnew\nthere\n")
    before = everything_below(tmp_path)
    plan = table.ingest(str(tmp_path / "*.csv"), dry_run=True).plan
    assert [(each.problem, each.first_at) for each in plan.differences] == [
        ("an earlier row has the row key k = 'new'", f"{tmp_path / 'b.csv'}, line 3"),
        ("the table already has the row key k = 'there'", f"{tmp_path / 'b.csv'}, line 4"),
    ]
    assert everything_below(tmp_path) == before
    new = session.admin.plan_table("u", [{"k": "a"}, {"k": "a"}], like="t")
    assert [each.problem for each in new.differences] == ["an earlier row has the row key k = 'a'"]
    sql = session.sql("INSERT INTO t SELECT 'there'", dry_run=True)
    assert "the table already has the row key" in repr(sql)
    assert "quarantine" not in repr(sql)


@pytest.mark.parametrize("ending", ["", "csv", "json", "parquet"])
def test_columns_that_the_data_lacks_are_named_by_the_dry_run_and_by_the_load(tmp_path: Path, ending: str):
    told: list[str] = []
    progress = Silent()
    progress.finish = lambda text="": told.append(text)  # type: ignore[method-assign]
    data: Any = pd.DataFrame({"id": [2]})
    if ending:
        path = tmp_path / f"in.{ending}"
        written = {"csv": data.to_csv, "parquet": data.to_parquet, "json": data.to_json}[ending]
        written(path, **({"orient": "records"} if ending == "json" else {"index": False}))
        data = path
    note = "NULL in every row, as the data has no values for it: name, amount"
    with sl.connect(tmp_path / "w", progress=progress) as session:
        table = session.create_table("t", sl.Schema({"id": "long"}, {}, {"name": "string?", "amount": "double?"}))
        plan = table.ingest(data, dry_run=True).plan
        assert plan.notes == (note,)
        assert note in repr(plan)
        table.ingest(data)
        assert note in told
        told.clear()
        table.ingest([{"id": 1, "name": "a", "amount": 2.0}])
        assert not any("NULL" in text for text in told)


def test_a_plan_names_the_first_row_with_a_null_of_a_parquet_file(table: Table, tmp_path: Path):
    rows = flights("AA", "DL", "UA", "ZZ", seats=pa.array([1, 2, None, None], pa.int32()))
    (difference,) = table.ingest(as_parquet(rows, tmp_path), dry_run=True).plan.differences
    assert (difference.kind, difference.count, difference.first_at) == ("nulls", "2", f"{tmp_path}/in.parquet, row 3")


@pytest.mark.parametrize(("rows", "says"), [(1, "writing 1 row"), (2, "writing 2 rows")])
def test_the_progress_counts_one_row_as_one(tmp_path: Path, rows: int, says: str):
    told: list[str] = []
    progress = Silent()
    progress.update = lambda text, done=0, total=0: told.append(text)  # type: ignore[method-assign] # noqa: ARG005
    data = [{"id": each} for each in range(rows)]
    with sl.connect(tmp_path / "w", progress=progress) as session:
        table = session.create_table("t", data, row_keys=["id"])
        assert says in told
        told.clear()
        table.ingest(data)
        assert says in told
