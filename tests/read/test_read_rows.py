from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.load.ingest import write_sorted
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read import scan_plan as planning
from sleeper_nb.read.scan_plan import plan_scan, regions_of
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from tests.support.builders import (
    KEYED,
    a_store,
    a_tree,
    compact,
    condition,
    in_order,
    ingest,
    keys_in,
    rows_of,
    scan,
)
from tests.support.examples import examples

SCHEMA = Schema({"s": "string", "i": "int", "b": "bytearray"}, {"t": "long"}, {"v": "double?"})
STRINGS = ["", "a", "a\0", "b", "é", "\uffff", "\U0001f600"]
INTS = [-(2**31), -1, 0, 1, 2**31 - 1]
BYTES = [b"", b"\0", b"\x7f", b"\x80", b"\xff"]
VALUES = {"s": st.sampled_from(STRINGS), "i": st.sampled_from(INTS), "b": st.sampled_from(BYTES)}
ROWS = st.lists(
    st.fixed_dictionaries({**VALUES, "t": st.integers(0, 3), "v": st.none() | st.sampled_from([-1.0, 2.0])}),
    max_size=12,
)


def bounds(values: Any) -> Any:
    return st.tuples(st.none() | values, st.none() | values)


@st.composite
def tables(draw: st.DrawFn) -> tuple[PartitionTree, list[list[dict[str, Any]]]]:
    """A tree split in all dimensions, and rows that came in several ingests."""
    points = sorted(draw(st.sets(VALUES["s"].filter(bool), max_size=2)))
    tree = PartitionTree.from_split_points(SCHEMA, points, ManualClock().new_id)
    if draw(st.booleans()):
        tree = tree.split(tree.leaves[0].id, 1, 0, ("i-left", "i-right")).split(
            "i-right", 2, b"\x80", ("b-left", "b-right")
        )
    return tree, draw(st.lists(ROWS, max_size=3))


def filled(folder: Path, made: Any) -> tuple[StateStore, list[dict[str, Any]]]:
    tree, ingests = made
    store = a_store(folder, SCHEMA, create=False)
    store.create("table", SCHEMA, tree)
    for rows in ingests:
        ingest(store, rows)
    return store, [row for rows in ingests for row in rows]


@examples(20)
@given(
    tables(),
    st.fixed_dictionaries({}, optional={name: bounds(values) for name, values in VALUES.items()}),
    st.sampled_from([None, "v > 0", "v is null", "i >= 0 and t < 2"]),
    st.none() | st.integers(0, 5),
)
def test_a_scan_gives_what_brute_force_gives(tmp_path_factory, made, region, where, limit):
    store, rows = filled(tmp_path_factory.mktemp("scan"), made)
    conditions = {
        None: bool,
        "v > 0": lambda row: row["v"] is not None and row["v"] > 0,
        "v is null": lambda row: row["v"] is None,
        "i >= 0 and t < 2": lambda row: row["i"] >= 0 and row["t"] < 2,
    }
    expected = [
        row
        for row in rows
        if conditions[where](row)
        and all((low is None or row[k] >= low) and (high is None or row[k] < high) for k, (low, high) in region.items())
    ]
    plan = plan_scan(store.load(), regions_of(SCHEMA, region=region or None))
    assert in_order(reading.read(plan, store.storage, where=condition(where, SCHEMA)).to_pylist()) == in_order(expected)
    assert where is not None or plan.rows in {None, len(expected)}
    cut = reading.read(plan, store.storage, columns=["v", "s"], where=condition(where, SCHEMA), limit=limit)
    assert cut.column_names == ["v", "s"]
    assert cut.num_rows == (len(expected) if limit is None else min(limit, len(expected)))
    assert set(cut["s"].to_pylist()) <= {row["s"] for row in expected}
    for leaf in plan.leaves:
        one = planning.ScanPlan(SCHEMA, 1, (leaf,), 1, 1, 1)
        keys = [tuple(row[name] for name in SCHEMA.sort_order) for row in reading.read(one, store.storage).to_pylist()]
        assert keys == sorted(keys)
    store.catalog.close()


@examples(20)
@given(
    tables(),
    st.lists(st.tuples(*VALUES.values()).flatmap(lambda key: st.integers(1, 3).map(lambda n: key[:n])), max_size=4),
)
def test_keys_give_each_row_once_however_they_overlap(tmp_path_factory, made, keys):
    store, rows = filled(tmp_path_factory.mktemp("keys"), made)
    expected = [row for row in rows if any(tuple(row[n] for n in ("s", "i", "b"))[: len(k)] == k for k in keys)]
    assert in_order(scan(store, keys=keys).to_pylist()) == in_order(expected)
    plan = plan_scan(store.load(), regions_of(SCHEMA, keys))
    alone = [planning.ScanPlan(SCHEMA, 1, (leaf,), 1, 1, 1) for leaf in plan.leaves]
    in_turn = [row for each in alone for row in reading.read(each, store.storage).to_pylist()]
    found = reading.read(plan, store.storage).to_pylist()  # reads leaves together where it can
    assert [[row[name] for name in SCHEMA.sort_order] for row in found] == [
        [row[name] for name in SCHEMA.sort_order] for row in in_turn
    ]
    store.catalog.close()


def test_keys_of_many_leaves_come_in_key_order_and_without_deleted_rows(tmp_path: Path):
    with sl.connect(tmp_path) as session:
        points = [10 * n for n in range(1, 20)]
        opened = session.create_table("t", sl.Schema({"k": "int"}, {}, {"v": "int"}), split_points=points)
        opened.ingest([{"k": k, "v": -k} for k in range(200)])
        opened.ingest([{"k": k, "v": k} for k in range(0, 200, 4)])  # a second file in each leaf
        opened.delete("k BETWEEN 40 AND 59 OR v = 104")
        keys = [*range(3, 200, 10), *range(4, 200, 10)]
        left = [k for k in sorted(keys) if not 40 <= k <= 59]
        expected = [(k, v) for k in left for v in sorted({-k, k} if k % 4 == 0 and k != 104 else {-k})]
        found = opened.scan(keys=keys).to_arrow().to_pylist()
        assert [row["k"] for row in found] == [k for k, _ in expected]
        assert sorted((row["k"], row["v"]) for row in found) == expected
        first = opened.scan(keys=keys, limit=7).to_arrow().to_pylist()
        assert [row["k"] for row in first] == [k for k, _ in expected[:7]]


@pytest.mark.parametrize("keys", [range(0, 1200, 10), range(1200)], ids=["some", "each"])
def test_a_damaged_file_is_refused_also_when_many_leaves_are_read_together(tmp_path: Path, keys: range):
    """As when its leaf is read alone, although all leaves together have too many files to check each."""
    with sl.connect(tmp_path) as session:
        schema = sl.Schema({"k": "int"}, {}, {"v": "string", "w": "int"})
        made = session.create_table("t", schema, split_points=range(100, 1200, 100))
        for _ in range(8):
            made.ingest([{"k": k, "v": f"{k * 2654435761 % 2**32:08x}", "w": k} for k in range(1200)])
        folder, name = made._store.storage.root, made.inspect.files().to_arrow()["filename"][0].as_py()
    path = Path(folder, name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with sl.connect(tmp_path) as session, pytest.raises(StorageError, match="checksum"):
        session.table("t").scan(["k", "v"], keys=list(keys)).to_arrow()


@pytest.fixture
def table(tmp_path: Path) -> StateStore:
    store = a_store(tmp_path, points=["g", "n"])
    ingest(store, rows_of("a", ("a", 1), "h", "z"))
    ingest(store, rows_of("b", "y"))
    return store


def test_a_key_is_one_value_a_tuple_or_a_list(table: StateStore):
    assert scan(table, keys="a").num_rows == 2
    assert scan(table, keys=("a", 1)).num_rows == 1
    assert scan(table, keys=["a", "a", ("a",), ("a", 1), "z"]).num_rows == 3
    assert scan(table, keys=[]).num_rows == 0
    assert scan(table, keys="none").num_rows == 0


def test_a_plan_opens_only_what_can_hold_the_key(table: StateStore):
    plan = plan_scan(table.load(), regions_of(table.load().schema, keys="a"))
    assert (len(plan.leaves), plan.leaves_of) == (1, 3)
    assert (len(plan.files), plan.files_of) == (1, 5)  # the other file of the leaf begins behind the key
    assert plan.bytes < plan.bytes_of
    whole = plan_scan(table.load())
    assert (whole.rows, len(whole.files), whole.bytes) == (6, 5, whole.bytes_of)


@pytest.mark.parametrize(
    ("keys", "region"),
    [
        (5, None), (("a", 1, 2), None), ((), None), ([("a", "b")], None), ([None], None), ("a", {"key": ("a", "b")}),
        (None, {"value": ("a", "b")}), (None, {"key": "ab"}), (None, {"key": 5}), (None, {"key": ("a",)}),
        (None, {"n": ("a", "b")}),
    ],
)  # fmt: skip
def test_keys_and_regions_that_cannot_be_are_refused(table: StateStore, keys: Any, region: Any):
    with pytest.raises(InvalidInput) as error:
        regions_of(table.load().schema, keys, region)
    assert error.value.hint


def test_bytes_of_any_kind_are_keys():
    schema = Schema({"b": "bytearray"})
    assert regions_of(schema, keys=[bytearray(b"a"), memoryview(b"a")]) == regions_of(schema, keys=b"a")


@pytest.mark.parametrize("where", ["", "no sql", "none = 1", "n + 1", "1 % n > 0", "count(*) > 0", "key = "])
def test_conditions_that_cannot_be_read_or_computed_are_refused(table: StateStore, where: str):
    with pytest.raises(InvalidInput) as error:
        scan(table, where=where)
    assert error.value.hint


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"columns": ["kee"]}, NotFound), ({"columns": ["key", "key"]}, InvalidInput), ({"limit": -1}, InvalidInput)],
)
def test_columns_and_limits_that_cannot_be_are_refused(table: StateStore, options: Any, kind: type):
    with pytest.raises(kind):
        scan(table, **options)


@pytest.mark.parametrize("harm", ["gone", "empty", "cut"])
def test_a_data_file_that_is_gone_or_harmed_is_an_error_and_never_no_rows(table: StateStore, harm: str):
    name = plan_scan(table.load()).files[0].filename
    path = Path(table.storage.locate(name))
    whole = path.read_bytes()
    path.unlink()
    if harm != "gone":
        path.write_bytes(b"" if harm == "empty" else whole[: len(whole) // 2])
    for options in ({}, {"where": "n = 0"}):
        with pytest.raises((NotFound, StorageError)):
            scan(table, **options)
    with pytest.raises((NotFound, StorageError)):
        compact(table)
    assert table.head().id == 3
    assert not table.catalog.claims(table.table_id, table.clock.now())


DOORS: dict[str, Callable[[sl.Session, sl.Table], object]] = {
    "all rows": lambda _, table: table.scan().to_arrow(),
    "one by one": lambda _, table: list(table.scan()),
    "one key": lambda _, table: table.scan(keys="a").to_arrow(),
    "keys": lambda _, table: table.scan(keys=["a", "c"]).to_arrow(),
    "condition": lambda _, table: table.scan(where="n >= 0").to_arrow(),
    "count": lambda _, table: table.scan(where="n % 1 = 0").count(),
    "head": lambda _, table: table.scan().head(1),
    "limit": lambda _, table: table.scan(limit=2).to_arrow(),
    "polars": lambda _, table: table.scan().to_polars(lazy=True).collect(),
    "dataset": lambda _, table: table.scan().to_dataset().to_table(),
    "relation": lambda _, table: table.scan().to_duckdb().fetchall(),
    "export": lambda _, table: table.scan().export(Path(table._store.storage.root).parent / "rows.parquet"),
    "changes": lambda _, table: table.changes(2, 3).rows().to_arrow(),
    "compaction": lambda _, table: table.maintenance.compact("all", engine="local"),
    "deletion": lambda _, table: table.delete("n = 0"),
    "sql": lambda session, _: session.sql("SELECT * FROM t", engine="duckdb").to_arrow(),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_goes_after_it_was_checked_is_an_error_in_every_read(
    tmp_path: Path, door: str, monkeypatch: pytest.MonkeyPatch
):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", KEYED)
        table.ingest(rows_of("a", "c"))
        table.ingest(rows_of("a", "b"))
        check, gone = reading._check_checksums, list[str]()

        def check_and_delete(files: Any, storage: Any, **options: Any) -> None:
            check(files, storage, **options)
            if not gone:
                gone.append(files[-1].filename)
                storage.delete(gone[0])

        monkeypatch.setattr(reading, "_check_checksums", check_and_delete)
        with pytest.raises(Exception, match=r"[Nn]o (such )?file") as error:
            DOORS[door](session, table)
        assert gone[0].rpartition("/")[2] in str(error.value)


@pytest.mark.parametrize("folder", ["with space", "[a]", "a*", "a?", "100%25", "é\U0001f600", "a#b", "a+b&c"])
def test_any_folder_can_be_a_warehouse(tmp_path: Path, folder: str):
    store = a_store(tmp_path / folder)
    ingest(store, rows_of("a"))
    ingest(store, rows_of("b"))
    compact(store)
    assert keys_in(scan(store)) == ["a", "b"]


def test_columns_of_any_case_and_script_are_read(tmp_path: Path):
    store = a_store(tmp_path, Schema({"Key": "string"}, {}, {"Größe": "int", "select": "int"}))
    ingest(store, [{"Key": "a", "Größe": 1, "select": 2}])
    assert scan(store, where='"Key" = \'a\' and "select" = 2').to_pylist() == [{"Key": "a", "Größe": 1, "select": 2}]


@pytest.mark.parametrize("where", ["Délai > 1", "délai > 1", "DéLAI > 1", '"Délai" > 1', "Key = 'b' AND key <> 'Key'"])
def test_a_condition_may_name_a_column_in_any_case(tmp_path: Path, where: str):
    store = a_store(tmp_path, Schema({"Key": "string"}, {}, {"Délai": "int"}))
    ingest(store, [{"Key": "a", "Délai": 1}, {"Key": "b", "Délai": 2}])
    assert scan(store, where=where)["Key"].to_pylist() == ["b"]
    with pytest.raises(InvalidInput, match="no column 'DÉLAI'"):  # DuckDB folds the case of ASCII letters
        scan(store, where="DÉLAI > 1")


def test_a_condition_keeps_its_functions_literals_and_types(tmp_path: Path):
    store = a_store(tmp_path, Schema({"Length": "string"}, {}, {"Date": "date", "order": "int"}))
    ingest(store, [{"Length": "Date", "Date": date(2026, 1, 1), "order": 1}])
    where = "Length = 'Date' AND length(Length) = 4 AND Date = DATE '2026-01-01' AND cast(Date AS date) IS NOT NULL"
    assert scan(store, where=where).num_rows == 1


def test_what_is_not_a_number_stays_so_beside_one_number(tmp_path: Path):
    # Parquet's least and greatest value of a column pass over NaN, so a reader may take such a column for a constant.
    store = a_store(tmp_path, Schema({"k": "int"}, {}, {"v": "double?", "f": "float?"}))
    ingest(store, [{"k": 1, "v": float("nan"), "f": float("nan")}, {"k": 2, "v": 0.5, "f": 0.5}])
    ingest(store, [{"k": 3, "v": 0.5, "f": None}])
    for _ in range(2):
        assert [str(v) for v in scan(store)["v"].to_pylist()] == ["nan", "0.5", "0.5"]
        assert [str(v) for v in scan(store)["f"].to_pylist()] == ["nan", "0.5", "None"]
        assert scan(store, where="isnan(v)")["k"].to_pylist() == scan(store, where="f > 1")["k"].to_pylist() == [1]
        compact(store)


def partial(store: StateStore, *parts: tuple[str, int]) -> None:
    """Give one file with the keys a, b, y and z to several partitions, as a split of partitions will."""
    schema = store.load().schema
    file = write_sorted(store.storage, paths.data_file("root", "whole"), schema, [scan_rows(schema)])
    store.commit(
        AddFiles(
            tuple(
                FileReference(
                    file.filename, partition, rows, file.bytes, file.min_key, file.max_key,
                    rows_exact=False, only_this_partition=False,
                )
                for partition, rows in parts
            )
        )
    )  # fmt: skip


def scan_rows(schema: Schema) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(rows_of("a", "b", "y", "z"), schema=schema.arrow)


def test_each_leaf_takes_its_own_rows_from_a_file_that_several_share(tmp_path: Path):
    store = a_store(tmp_path, points=["m"])
    left, right = store.load().tree.leaves
    partial(store, (left.id, 3), (right.id, 3))
    plan = plan_scan(store.load())
    assert plan.rows is None  # three and three are estimates
    assert plan.files_of == 1
    assert keys_in(reading.read(plan, store.storage)) == ["a", "b", "y", "z"]
    assert keys_in(scan(store, region={"key": ("b", "z")})) == ["b", "y"]
    done = compact(store)
    assert len(done.jobs) == 2
    assert keys_in(scan(store)) == ["a", "b", "y", "z"]
    assert plan_scan(store.load()).rows == 4


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_leaves_shared_keeps_its_part_when_the_other_part_was_merged(tmp_path: Path, which: int):
    store = a_store(tmp_path, points=["m"])
    leaves = store.load().tree.leaves
    partial(store, *((leaf.id, 3) for leaf in leaves))
    compact(store, partition_id=leaves[which].id)
    for keys, expected in ((["b", "y"], ["b", "y"]), ("z", ["z"]), ("a", ["a"]), (["c", "n"], [])):
        assert keys_in(scan(store, keys=keys)) == expected
    assert keys_in(scan(store, region={"key": ("b", "z")})) == ["b", "y"]
    assert keys_in(scan(store)) == ["a", "b", "y", "z"]


def test_a_reference_of_one_leaf_gives_no_rows_to_another(tmp_path: Path):
    store = a_store(tmp_path, points=["m"])
    partial(store, (store.load().tree.leaves[0].id, 2))
    assert keys_in(scan(store)) == ["a", "b"]


def test_estimates_are_not_given_as_counts(tmp_path: Path):
    store = a_store(tmp_path)
    partial(store, ("root", 99))
    assert plan_scan(store.load()).rows is None
    assert compact(store).refused == ()
    assert plan_scan(store.load()).rows == 4


def test_a_reference_of_a_partition_that_was_split_feeds_its_leaves(tmp_path: Path):
    store = a_store(tmp_path)
    ingest(store, rows_of("a", "b", "y", "z"))
    state = store.load()
    tree = state.tree.split("root", 0, "m", ("left", "right"))
    split = type(state)(state.snapshot_id, state.schema_id, state.schema, tree, state.files)
    assert keys_in(reading.read(plan_scan(split), store.storage)) == ["a", "b", "y", "z"]
    upper = regions_of(state.schema, region={"key": ("m", None)})
    assert keys_in(reading.read(plan_scan(split, upper), store.storage)) == ["y", "z"]


def test_a_plan_shows_the_way_from_the_table_to_the_scan(table: StateStore):
    assert "scan of snapshot 3" in repr(plan_scan(table.load()))
    assert plan_scan(a_store(Path(table.storage.root) / "x").load()).rows == 0
    assert len(a_tree("m").leaves) == 2
