from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.clock import ManualClock
from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.errors import OutcomeUnknown, StorageError
from sleeper_nb.load.ingest import (
    IngestSettings,
    cut_by_leaf,
    discard_run,
    ingest_arrow,
    reference_to,
    write_and_commit,
    write_sorted,
)
from sleeper_nb.maintain import check as checking
from sleeper_nb.maintain.compact import run_job
from sleeper_nb.maintain.compaction_plan import StrategySettings, plan_compaction
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.transactions import ReplaceFileReferences
from sleeper_nb.progress import Silent
from sleeper_nb.read.scan_plan import plan_scan
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.data_files import DataFileSettings, DataFileWriter, is_sorted
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import (
    KEYED,
    a_store,
    a_tree,
    collect,
    compact,
    data_files,
    forget_all_but_newest,
    in_order,
    ingest,
    keys_in,
    leaf_of,
    on_disk,
    reopened,
    rows_of,
    scan,
)
from tests.support.examples import examples
from tests.support.faults import Trap, TrappedCatalog, TrappedStorage, interrupt, lose_answer


def test_each_leaf_with_rows_gets_one_sorted_file(tmp_path: Path):
    store = a_store(tmp_path, points=["g", "n", "t"])
    made = ingest(store, rows_of("z", "a", ("b", 2), ("b", 1), "é", "t"))
    assert (made.files, made.rows, made.added_rows) == (2, 6, 6)
    state = store.load()
    for file in state.files.active_in({leaf.id for leaf in state.tree.leaves}):
        rows = pq.read_table(store.storage.locate(file.filename), partitioning=None)
        keys = [(row["key"], row["n"]) for row in rows.to_pylist()]
        assert keys == sorted(keys)
        assert all(key in state.tree[file.partition_id].region for key in keys)
        assert (file.min_key, file.max_key) == (
            (keys[0][0], min(n for _, n in keys)),
            (keys[-1][0], max(n for _, n in keys)),
        )
        assert file.bytes == store.storage.size(file.filename)
        assert f"partition_{file.partition_id}/" in file.filename
    assert data_files(store) == set(state.files.table["filename"].to_pylist())


def test_no_rows_make_no_snapshot(store: StateStore):
    report = ingest_arrow(store, KEYED.arrow.empty_table())
    assert (report.snapshot, report.rows, report.snapshot_id) == (None, 0, store.head().id)
    assert store.head().id == 1


def test_equal_rows_are_all_kept(store: StateStore):
    ingest(store, rows_of("a", "a"))
    ingest(store, rows_of("a"))
    assert keys_in(scan(store)) == ["a"] * 3


VALUES = st.tuples(st.binary(max_size=2), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(VALUES, max_size=20), st.sets(st.binary(max_size=2), max_size=4))
def test_rows_are_cut_where_the_tree_says(keys: list[Any], points: set[bytes]):
    schema = Schema({"b": "bytearray", "l": "long"})
    tree = PartitionTree.from_split_points(schema, sorted(points), ManualClock().new_id)
    leaf = tree.leaves[0]
    tree = tree.split(leaf.id, 1, 0, ("x", "y"))
    rows = pa.Table.from_pylist([{"b": b, "l": n} for b, n in keys], schema=schema.arrow)
    parts = {leaf.id: part.to_pylist() for leaf, part in cut_by_leaf(rows, tree, schema)}
    expected: dict[str, list[Any]] = {}
    for b, n in keys:
        expected.setdefault(leaf_of(tree, (b, n)).id, []).append({"b": b, "l": n})
    assert parts == expected


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("fault", [interrupt, lose_answer])
def test_a_fault_in_the_middle_leaves_no_snapshot_and_no_file(tmp_path: Path, number: int, fault: Any):
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of("a", "z"))
    before, head = on_disk(store), store.head()
    trap = Trap(number, fault, only=("output", "commit"))
    failing = reopened(store, TrappedCatalog(store.catalog, trap), TrappedStorage(store.storage, trap))
    if number > 4:
        assert ingest(failing, rows_of("b", "y")).id == 3
        assert trap.calls == ["output", "output", "output", "commit"]
        return
    with pytest.raises((KeyboardInterrupt, StorageError)):
        ingest(failing, rows_of("b", "y"))
    assert (on_disk(store), store.head()) == (before, head)


def test_a_file_of_failed_work_that_cannot_be_deleted_keeps_no_other_one(tmp_path: Path, caplog, monkeypatch):
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of("a", "z"))
    before = on_disk(store)
    refused: list[str] = []

    def delete(storage: Storage, path: str) -> None:
        if path.startswith("data/") and not refused:
            refused.append(path)
            raise StorageError("the disk does not want to", hint="")
        really(storage, path)

    really = Storage.delete
    monkeypatch.setattr(Storage, "delete", delete)
    failing = reopened(store, TrappedCatalog(store.catalog, Trap(1, interrupt, only=("commit",))), store.storage)
    with pytest.raises(KeyboardInterrupt):
        ingest(failing, rows_of("b", "y"))
    assert on_disk(store) - before == {*refused}
    assert f"cannot delete {refused[0]} of failed work: the disk" in caplog.text


def test_an_interrupt_that_hits_a_commit_that_won_deletes_nothing(store: StateStore):
    trap = Trap(1, interrupt, after=True, only=("commit",))
    with pytest.raises(KeyboardInterrupt):
        ingest(reopened(store, TrappedCatalog(store.catalog, trap)), rows_of("a"))
    assert keys_in(scan(reopened(store))) == ["a"]


def test_files_stay_when_nobody_can_say_whether_they_are_in_the_table(store: StateStore):
    trap = Trap(1, lose_answer, after=True, only=("commit", "has_commit"))
    cut_off = reopened(store, TrappedCatalog(store.catalog, trap))
    trap.spring = lambda: (setattr(trap, "at", 2), lose_answer())
    with pytest.raises(OutcomeUnknown):
        ingest(cut_off, rows_of("a"))
    assert keys_in(scan(reopened(store))) == ["a"]


def test_an_error_of_the_writer_deletes_the_files_it_had_finished(store: StateStore):
    def write(schema: Schema, tree: PartitionTree) -> Iterator[Any]:
        with DataFileWriter(store.storage, "data/partition_root/x.parquet", schema) as writer:
            writer.write(pa.Table.from_pylist(rows_of("a"), schema=schema.arrow))
            yield reference_to(writer.finish(), tree.root.id)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_commit(store, write, message=None, author=None)
    assert data_files(store) == set()


def test_files_that_cannot_be_deleted_hide_neither_an_error_nor_that_a_load_is_done(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
):
    broken = reopened(store, storage=TrappedStorage(store.storage, Trap(1, lose_answer, only=("delete",))))

    def write(schema: Schema, tree: PartitionTree) -> Iterator[Any]:
        rows = pa.Table.from_pylist(rows_of("a"), schema=schema.arrow)
        yield reference_to(write_sorted(broken.storage, "data/partition_root/x.parquet", schema, [rows]), tree.root.id)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_commit(broken, write, message=None, author=None)
    assert data_files(store) == {"data/partition_root/x.parquet"}
    monkeypatch.setattr(broken.storage, "list", lambda _: lose_answer())
    discard_run(broken, "x", ["data"], keep=())  # as after a commit


# One file that several leaves refer to

SHARED: dict[str, Any] = {"settings": IngestSettings("one_reference_per_leaf")}


def test_one_file_for_all_leaves_has_an_exact_reference_from_each(tmp_path: Path):
    store = a_store(tmp_path, points=["g", "n", "t"])
    made = ingest(store, rows_of("z", "a", ("b", 2), ("b", 1), "é", "t"), **SHARED)
    assert (made.rows, made.added_rows) == (6, 6)
    assert len(data_files(store)) == 1
    state = store.load()
    references = state.files.active_in({leaf.id for leaf in state.tree.leaves})
    assert len({r.filename for r in references}) == 1
    assert "partition_root/" in references[0].filename
    rows = {state.tree[r.partition_id].region.text(KEYED): r.rows for r in references}
    assert rows == {"key (-∞, g)": 3, "key [t, ∞)": 3}
    assert all(r.rows_exact and not r.only_this_partition for r in references)
    assert {(r.min_key, r.max_key) for r in references} == {(("a", 0), ("é", 2))}
    found = pq.read_table(store.storage.locate(references[0].filename), partitioning=None)
    assert is_sorted(found.select(KEYED.sort_order))
    assert keys_in(scan(store)) == ["a", "b", "b", "t", "z", "é"]
    assert keys_in(scan(store, keys=["b", "z"])) == ["b", "b", "z"]


def test_a_file_whose_rows_are_all_in_one_leaf_is_that_leafs_alone(tmp_path: Path):
    store = a_store(tmp_path, points=["m"])
    ingest(store, rows_of("a", "b"), **SHARED)
    (reference,) = store.load().files.active_in({leaf.id for leaf in store.load().tree.leaves})
    assert reference.only_this_partition


ENGINES: dict[str, Any] = {
    "arrow": scan,
    "duckdb": lambda store: relations.to_arrow(
        relations.relation(Database().connect(), plan_scan(store.load()), store.storage)
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shared_file_is_cut_to_each_leaf_and_stays_while_one_of_them_uses_it(tmp_path: Path, engine: str):
    store, read = a_store(tmp_path, points=["m"]), ENGINES[engine]
    for n in range(2):
        ingest(store, rows_of(("a", n), ("b", n), ("y", n), ("z", n)), **SHARED)
    everything = sorted(keys_in(read(store)))
    assert everything == ["a", "a", "b", "b", "y", "y", "z", "z"]
    left, right = (leaf.id for leaf in store.load().tree.leaves)
    jobs = plan_compaction(store.load(), "all", StrategySettings(), [], store.clock).jobs
    (job,) = [job for job in jobs if job.partition_id == left]
    output = run_job(job, KEYED, store.storage)
    assert (output.rows, output.max_key) == (4, ("b", 1))
    store.commit(ReplaceFileReferences(job.id, left, job.filenames, reference_to(output, left, job_id=job.id)))
    assert sorted(keys_in(read(store))) == everything
    forget_all_but_newest(store)
    collect(store)
    shared = {reference.filename for reference in store.load().files.active_in({right})}
    assert len(shared) == 2
    assert data_files(store) == shared | {output.filename}
    assert sorted(keys_in(read(store))) == everything
    assert checking.check_table(store, "table", deep=True, progress=Silent()).ok
    compact(store)
    forget_all_but_newest(store)
    collect(store)
    assert not data_files(store) & shared
    assert sorted(keys_in(read(store))) == everything


SHAPES = st.lists(st.tuples(st.sampled_from(["", "a", "é", "\U0001f600", "￿"]), st.integers(-2, 2)), max_size=12)


@examples(12)
@given(SHAPES, SHAPES)
def test_both_ways_of_writing_give_the_same_rows_of_every_region(
    tmp_path_factory: Any, first: list[Any], second: list[Any]
):
    found = []
    for strategy in ("one_file_per_leaf", "one_reference_per_leaf"):
        store = a_store(tmp_path_factory.mktemp("t"), create=False)
        tree = a_tree("a", "é")
        store.create("table", KEYED, tree.split(tree.leaves[1].id, 1, 0, ("left", "right")))
        for keys in (first, second):
            ingest(store, rows_of(*keys), settings=IngestSettings(strategy))
        regions: list[dict[str, Any]] = [{}, {"region": {"n": (0, None)}}, {"region": {"key": ("a", "￿")}}]
        found.append([in_order(scan(store, **region).to_pylist()) for region in regions])
        compact(store)
        found.append([in_order(scan(store, **region).to_pylist()) for region in regions])
    assert found[0] == found[1] == found[2] == found[3]


# Data files


def table_of(*keys: Any) -> pa.Table:
    return pa.Table.from_pylist(rows_of(*keys), schema=KEYED.arrow)


def test_row_groups_have_a_fixed_number_of_rows_however_rows_arrive(tmp_path: Path):
    with DataFileWriter(Storage(tmp_path), "f.parquet", KEYED, DataFileSettings(row_group_rows=4)) as writer:
        for part in ("abc", "", "d", "efghijk"):
            writer.write(table_of(*part))
        done = writer.finish()
    metadata = pq.read_metadata(tmp_path / "f.parquet")
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [4, 4, 3]
    assert (done.rows, done.min_key, done.max_key) == (11, ("a", 0), ("k", 0))


@pytest.mark.parametrize("parts", [["ba"], ["a", "b", "a"]])
def test_rows_out_of_order_are_refused_and_leave_no_file(tmp_path: Path, parts: list[str]):
    def write() -> None:
        with DataFileWriter(Storage(tmp_path), "f.parquet", KEYED) as writer:
            for part in parts:
                writer.write(table_of(*part))
            writer.finish()

    with pytest.raises(StorageError, match="not sorted"):
        write()
    assert not list(tmp_path.iterdir())


def test_no_rows_make_no_file(tmp_path: Path):
    with DataFileWriter(Storage(tmp_path), "f.parquet", KEYED) as writer:
        assert writer.finish() is None
    assert not list(tmp_path.iterdir())


@given(st.lists(st.tuples(st.sampled_from("aé\U0001f600"), st.integers(0, 2), st.binary(max_size=1)), max_size=6))
def test_order_is_judged_as_python_judges_it(keys: list[Any]):
    rows = pa.Table.from_pylist([dict(zip("abc", key, strict=True)) for key in keys], schema=pa.schema(
        [("a", pa.string()), ("b", pa.int32()), ("c", pa.binary())]))  # fmt: skip
    assert is_sorted(rows) == (keys == sorted(keys))


def test_every_type_comes_back_as_it_went_in(tmp_path: Path):
    schema = Schema(
        {"b": "bytearray", "l": "long"},
        {"d": "date", "t": "timestamp"},
        {"m": "map<string,list<int>>?", "f": "float", "e": "decimal(38,10)", "o": "boolean?", "x": "double"},
    )
    row = {
        "b": b"\x80", "l": 2**63 - 1, "d": "2026-01-01", "t": "2026-01-01T00:00:00.000001Z", "m": [("a", [1, None])],
        "f": 0.5, "e": 1, "o": None, "x": float("inf"),
    }  # fmt: skip
    rows = pa.Table.from_pylist([row, {**row, "b": b"", "m": None}], schema=pa.schema(
        [pa.field(f.name, pa.string() if f.type.name in {"date", "timestamp"} else f.type.arrow) for f in schema.fields]
    ))  # fmt: skip
    store = a_store(tmp_path, schema, [b"\x80"])
    ingest(store, rows)
    ingest(store, rows)
    expected = [*rows.to_pylist()] * 2
    read = scan(store)
    assert read.schema == schema.arrow
    for name in ("d", "t"):
        i = read.schema.get_field_index(name)
        texts = [str(v) if name == "d" else f"{v:%Y-%m-%dT%H:%M:%S.%fZ}" for v in read[name].to_pylist()]
        read = read.set_column(i, name, pa.array(texts))
    assert in_order(read.to_pylist()) == in_order(expected)
