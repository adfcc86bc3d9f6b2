"""Bulk loads by threads that leave the merge of their sorted runs to compaction: the rows of a load that merges."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import StorageError
from sleeper_nb.load import bulk_load, sorted_runs
from sleeper_nb.load.bulk_load import BulkLoad, ThreadsWriter
from sleeper_nb.load.ingest import IngestSettings, write_sorted
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.sorted_runs import ALL_MERGED, FEW, RunFiles, most_runs
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.properties import IMPORT_MERGE, IMPORT_TASK_BYTES
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT, Progress, Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.table import loading as table_loading
from tests.load.test_bulk_threads import ROWS, SCHEMA, rows_of, sorted_texts, three_files
from tests.support.builders import EMBEDDED, a_store, compact, on_disk, scan
from tests.support.combinations import each_value_once

NO_CHECKS: Callable[[Schema], Sequence[object]] = lambda _: ()  # noqa: E731
TASK_BYTES = 1_600_000
"""With it, the rows of three files are several slices, and no more than may become files."""
KEYS = ["key", "n", "at"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "PIECE_ROWS", 100)
    monkeypatch.setattr(bulk_load, "threads_of_machine", lambda: 2)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return three_files(tmp_path / "in")


def load(store: StateStore, data: object, settings: IngestSettings, progress: Progress = SILENT) -> BulkLoad:
    """Load data, and return the load."""
    sources = find_sources(data)
    writer = ThreadsWriter(store.storage, sources, EXACT, settings, NO_CHECKS, ManualClock(), progress)  # type: ignore[arg-type]
    done = BulkLoad(store, sources, EXACT, writer)
    done.imported(progress=progress)
    return done


def files_of_leaves(store: StateStore) -> Counter[str]:
    return Counter(store.load().files.active["partition_id"].to_pylist())


def keys_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in KEYS), strict=True))


def check_one_file_a_leaf(store: StateStore) -> None:
    """Compact, and hold that each leaf has one file, and that all rows are in order."""
    rows = sorted_texts(scan(store))
    compact(store)
    assert set(files_of_leaves(store).values()) == {1}
    found = scan(store)
    assert keys_of(found) == sorted(keys_of(found))
    assert sorted_texts(found) == rows


# What a table holds afterwards


@pytest.mark.parametrize(
    ("kind", "strategy"), each_value_once(EMBEDDED, ["one_file_per_leaf", "one_reference_per_leaf"])
)
def test_the_rows_are_those_of_a_load_that_merges(tmp_path: Path, files: Path, kind: str, strategy: str) -> None:
    stores = {}
    for merge in (True, False):
        name = f"merge-{merge}"
        catalog = SqliteCatalog(tmp_path / f"{name}.sqlite")
        stores[merge] = a_store(
            tmp_path, SCHEMA, ["a", "a\0", "é"], kind=kind, name=name, table_id=name, catalog=catalog
        )
        done = load(stores[merge], files, IngestSettings(strategy, task_bytes=TASK_BYTES, merge=merge))
        assert done.is_unmerged is not merge
    merged, unmerged = stores[True], stores[False]
    assert 4 <= max(files_of_leaves(unmerged).values()) <= 20
    assert unmerged.head().id == merged.head().id == 2
    if strategy == "one_reference_per_leaf":
        assert unmerged.head().files == max(files_of_leaves(unmerged).values())
    assert sorted_texts(scan(unmerged)) == sorted_texts(scan(merged))
    for region in ({"key": ("a", "é")}, {"n": (-3, 4)}):
        assert sorted_texts(scan(unmerged, region=region)) == sorted_texts(scan(merged, region=region))
    assert check_table(unmerged, "table", deep=True, progress=Silent()).ok
    check_one_file_a_leaf(unmerged)
    assert check_table(unmerged, "table", deep=True, progress=Silent()).ok


SMALL = Schema({"key": "string", "n": "int"}, values={"x": "double?"})
SOME_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "a\0", "é", "z" * 40]), st.integers(-2, 2), st.none() | st.floats(-1, 1, width=16)
    ),
    max_size=40,
)


@given(SOME_ROWS, st.sets(st.sampled_from(["", "a", "a\0", "z"])), st.sampled_from([8, 8 * 100, 8 * 10_000]))
def test_any_rows_are_loaded_once_whatever_a_run_has_of_them(
    tmp_path_factory: pytest.TempPathFactory,
    given_rows: list[tuple[str, int, float | None]],
    points: set[str],
    size: int,
) -> None:
    rows = pa.Table.from_pylist([dict(zip(SMALL.names, row, strict=True)) for row in given_rows], schema=SMALL.arrow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_load, "BATCH_ROWS", 3)
        store = a_store(tmp_path_factory.mktemp("t"), SMALL, sorted(points))
        load(store, rows, IngestSettings(task_bytes=size, merge=False))
    found = scan(store)
    assert sorted_texts(found) == sorted_texts(rows)
    keys = list(zip(found["key"].to_pylist(), found["n"].to_pylist(), strict=True))
    assert keys == sorted(keys)


def test_a_skewed_leaf_gets_no_more_files_than_there_are_runs(tmp_path: Path) -> None:
    rows = rows_of(60_000)
    skewed = rows.set_column(0, SCHEMA.arrow.field("key"), pa.array(["a"] * 50_000 + rows["key"].to_pylist()[50_000:]))
    pq.write_table(skewed, tmp_path / "in.parquet", row_group_size=3_000)
    store = a_store(tmp_path, SCHEMA, ["b", "é"])
    load(store, str(tmp_path / "in.parquet"), IngestSettings(task_bytes=TASK_BYTES, merge=False))
    assert 4 <= max(files_of_leaves(store).values()) <= 20
    assert sorted_texts(scan(store)) == sorted_texts(skewed)
    check_one_file_a_leaf(store)


def test_rows_are_added_to_those_that_the_table_has(tmp_path: Path, files: Path) -> None:
    store = a_store(tmp_path, SCHEMA, ["é"])
    load(store, rows_of(500, seed=9), IngestSettings())
    load(store, files, IngestSettings(task_bytes=TASK_BYTES, merge=False))
    expected = pa.concat_tables([rows_of(500, seed=9), *(rows_of(seed=number) for number in range(3))])
    assert sorted_texts(scan(store)) == sorted_texts(expected)
    check_one_file_a_leaf(store)


# Bounds


def test_runs_beyond_the_bound_are_merged_although_the_data_seemed_smaller(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_load, "times_in_memory", lambda _: 1)
    store = a_store(tmp_path, SCHEMA, ["a", "é"])
    done = load(store, files, IngestSettings(task_bytes=200_000, merge=False))
    added = files_of_leaves(store)
    assert 20 <= max(added.values()) <= 20 + 60_000 * 60 // 200_000  # 20 of runs, and ranges of the merge
    assert done.runs_note == f"up to {max(added.values())} files of each leaf, which compaction merges"
    assert sorted_texts(scan(store)) == sorted_texts(pa.concat_tables([rows_of(seed=n) for n in range(3)]))
    assert check_table(store, "table", deep=True, progress=Silent()).ok


def test_more_files_than_there_should_be_are_merged_and_the_load_says_so(tmp_path: Path, files: Path) -> None:
    store = a_store(tmp_path, SCHEMA, ["a", "é"])
    done = load(store, files, IngestSettings(task_bytes=300_000, merge=False))
    assert not done.is_unmerged
    assert done.runs_note.startswith("sorted runs will be merged anyway: each leaf would get about ")
    assert "files (limit 20); a larger sleeper.table.bulk.import.task.memory.bytes makes fewer" in done.runs_note


@pytest.mark.parametrize(
    ("total", "workers", "leaves", "expected"),
    [
        (0, 2, 32, RunFiles(20, 2)),
        (1_000, 2, 32, RunFiles(20, 10)),
        (2_000, 2, 500, RunFiles(20, 20)),
        (1_000, 1, 1_000, RunFiles(10, 10)),
    ],
)
def test_few_runs_become_files(total: int, workers: int, leaves: int, expected: RunFiles) -> None:
    assert RunFiles.of(total, 100, workers, leaves) == expected


@pytest.mark.parametrize(
    ("total", "leaves", "words"),
    [
        (2_001, 500, "each leaf would get about 22 files (limit 20);"),
        (1_001, 1_000, "each leaf would get about 12 files (limit 10 with 1,000 leaves);"),
        (1, 10_001, "each leaf would get about 2 files (limit 0 with 10,001 leaves);"),
    ],
)
def test_many_are_merged_with_the_reason(total: int, leaves: int, words: str) -> None:
    found = RunFiles.of(total, 100, 2, leaves)
    assert (found.most, found.expected) == (0, 0)
    assert words in found.note


@given(st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 20_000))
def test_workers_make_few_files_together(total: int, workers: int, leaves: int) -> None:
    found = RunFiles.of(total, 1_000, workers, leaves)
    assert found.most in {0, most_runs(leaves)}
    assert bool(found.note) == (found.most == 0)
    assert found.expected <= found.most <= 20
    assert found.most * leaves <= 10_000
    assert found.of_worker(workers) * workers <= max(found.most, workers if found.most else 0)
    assert found.if_few() in ({found} if found.expected <= FEW else {ALL_MERGED})


# Failures


class InterruptedWhileWriting(Silent):
    """A watcher that is interrupted when a thread has written a file; until then each waits after its first."""

    def __init__(self) -> None:
        self.written, self.interrupted = threading.Event(), threading.Event()

    def write(self, *given: Any) -> Any:
        """Write a file, and wait."""
        file = write_sorted(*given)
        self.written.set()
        assert self.interrupted.wait(60)
        return file

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the watcher's own form
        if self.written.is_set():
            self.interrupted.set()
            raise KeyboardInterrupt


def test_an_interrupt_leaves_no_file(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = InterruptedWhileWriting()
    monkeypatch.setattr(bulk_load, "write_sorted", watcher.write)
    store = a_store(tmp_path, SCHEMA, ["a", "é"])
    with pytest.raises(KeyboardInterrupt):
        load(store, files, IngestSettings(task_bytes=TASK_BYTES, merge=False), watcher)
    assert store.head().id == 1
    assert not [path for path in on_disk(store) if path.startswith("data/")]


def test_the_first_difference_is_raised_and_nothing_is_added(tmp_path: Path, files: Path) -> None:
    bad = rows_of().set_column(1, "n", pa.array([1] * (ROWS - 1) + [2**40]))
    pq.write_table(bad, files / "1.parquet", row_group_size=3_000)
    store = a_store(tmp_path, SCHEMA, ["é"])
    with pytest.raises(sl.InvalidInput, match=r"1\.parquet"):
        load(store, files, IngestSettings(task_bytes=200_000, merge=False))
    assert store.head().id == 1
    assert not [path for path in on_disk(store) if path.startswith("data/")]


def test_a_file_that_cannot_be_written_leaves_none(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def failing(*given: Any) -> Any:
        written.append(given[1])
        if len(written) > 5:
            raise sl.StorageError("the disk is broken")
        return write_sorted(*given)

    monkeypatch.setattr(bulk_load, "write_sorted", failing)
    store = a_store(tmp_path, SCHEMA, ["a", "é"])
    with pytest.raises(sl.StorageError, match="the disk is broken"):
        load(store, files, IngestSettings(task_bytes=TASK_BYTES, merge=False))
    assert not [path for path in on_disk(store) if path.startswith("data/")]


# Tables whose rows are combined, unique or checked


def rows_with(keys: Sequence[str], values: Sequence[int]) -> pa.Table:
    return pa.table({"key": keys, "x": pa.array(values, pa.int64())})


LONG = {IMPORT_MERGE: "false", IMPORT_TASK_BYTES: str(16 << 20)}


@pytest.fixture
def many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_load, "slice_bytes", lambda _: 200)
    monkeypatch.setattr(bulk_load, "BATCH_ROWS", 10)


@pytest.mark.usefixtures("many_runs")
@pytest.mark.parametrize(
    ("aggregation", "of_b"),
    [("sum(x)", sum(range(0, 100, 2))), ("max(x)", 98), ("last(x,x)", 98), ("first(x,x)", 0)],
)
def test_rows_of_one_key_in_several_runs_are_combined(session: sl.Session, aggregation: str, of_b: int) -> None:
    schema = sl.Schema({"key": "string"}, values={"x": "long"})
    properties = {**LONG, "sleeper.table.aggregations": aggregation}
    table = session.create_table("t", schema, ["b"], properties=properties)
    loaded = table.bulk_import(rows_with(["b", "a"] * 50, range(100)))
    assert loaded.snapshot.added_files > 4
    for _ in range(2):
        assert session.sql("SELECT x FROM t WHERE key = 'b'").to_arrow()["x"].to_pylist() == [of_b]
        table.maintenance.compact("all")
    assert len(table.inspect.files()) == 2


@pytest.mark.usefixtures("many_runs")
def test_a_key_in_two_runs_is_refused_where_keys_are_unique(session: sl.Session) -> None:
    schema = sl.Schema({"key": "string"}, values={"x": "long"}, unique_keys=True)
    table = session.create_table("t", schema, ["b"], properties=LONG)
    keys = [f"{number:04d}" for number in range(100)]
    with pytest.raises(sl.InvalidInput, match="'0003' occurs 2 times"):
        table.bulk_import(rows_with([*keys[:-1], "0003"], range(100)))
    assert table.history()[0].id == 1
    assert not list(Path(session.location).rglob("data/**/*.parquet"))
    assert table.bulk_import(rows_with(keys, range(100))).snapshot.added_files > 4
    with pytest.raises(sl.InvalidInput, match="is in the table already"):
        table.bulk_import(rows_with(["0050"], [1]))


@pytest.mark.usefixtures("many_runs")
def test_expectations_are_counted_once_and_the_note_of_the_runs_stays(session: sl.Session) -> None:
    schema = sl.Schema({"key": "string"}, values={"x": "long"})
    table = session.create_table("t", schema, ["b"], properties={**LONG, "sleeper.table.expect": "x < 90"})
    loaded = table.bulk_import(rows_with(["b", "a"] * 50, range(100)))
    assert dict(loaded.snapshot.broken_expectations) == {"x < 90": 10}
    assert "expectation 'x < 90' is broken by" in repr(loaded)
    assert "which compaction merges: table.maintenance.compact()" in repr(loaded)


# What users see


@pytest.mark.usefixtures("many_runs")
def test_the_report_names_the_compaction_that_merges_the_files(session: sl.Session) -> None:
    table = session.create_table("t", sl.Schema({"key": "string"}, values={"x": "long"}), ["b"])
    loaded = table.bulk_import(rows_with(["a"] * 100, range(100)), merge=False)
    assert loaded.runs == f"up to {loaded.snapshot.added_files} files of each leaf, which compaction merges"
    assert repr(loaded).endswith(f"{loaded.runs}: table.maintenance.compact()")
    assert table.maintenance.compact().jobs
    few = session.create_table("few", sl.Schema({"key": "string"}, values={"x": "long"}))
    loaded = few.bulk_import(rows_with(["a"] * 21, range(21)), merge=False)
    assert repr(loaded).endswith(f"up to {loaded.snapshot.added_files} files of each leaf, which compaction merges: "
                                 "table.maintenance.compact('all')")  # fmt: skip
    assert 1 < loaded.snapshot.added_files < 4
    assert not few.maintenance.compact(dry_run=True).jobs
    assert few.maintenance.compact("all").jobs


def test_one_run_says_nothing(session: sl.Session) -> None:
    table = session.create_table("t", sl.Schema({"key": "string"}, values={"x": "long"}), ["b"])
    loaded = table.bulk_import(rows_with(["a", "b"], range(2)), merge=False)
    assert loaded.snapshot.added_files == 2
    assert "compact" not in repr(loaded)
    assert table.bulk_import(rows_with([], []), merge=False).snapshot_id == loaded.snapshot_id


@pytest.mark.usefixtures("many_runs")
def test_a_dry_run_plans_the_files_of_all_runs(session: sl.Session) -> None:
    table = session.create_table("t", sl.Schema({"key": "string"}, values={"x": "long"}), ["b"])
    rows = rows_with(["b", "a"] * 50, range(100))
    assert table.bulk_import(rows, dry_run=True).plan.files == 2
    plan = table.bulk_import(rows, dry_run=True, merge=False).plan
    of_leaf = plan.files // 2
    assert f"up to {of_leaf} files of each leaf, which compaction merges" in plan.notes
    assert table.at().resolved.snapshot_id == 1
    made = table.bulk_import(rows, merge=False).snapshot.added_files
    assert made <= plan.files <= 2 * made
    many = rows_with(["b"] * 2_000, range(2_000))
    plan = table.bulk_import(many, dry_run=True, merge=False).plan
    assert plan.files == 1
    assert any("sorted runs will be merged anyway" in note for note in plan.notes)


def test_the_property_decides_and_the_argument_overrides_it(session: sl.Session, many_runs: None) -> None:
    schema = sl.Schema({"key": "string"}, values={"x": "long"})
    rows = rows_with(["a"] * 100, range(100))
    added = {}
    for value in ("auto", "true", "false"):
        table = session.create_table(f"t_{value}", schema, properties={IMPORT_MERGE: value})
        added[value] = [table.bulk_import(rows, merge=merge).snapshot.added_files > 1 for merge in (None, True, False)]
    assert added == {
        "auto": [False, False, True], "true": [False, False, True], "false": [True, False, True],
    }  # fmt: skip
    with pytest.raises(sl.InvalidInput, match="auto, true or false"):
        session.create_table("t", schema, properties={IMPORT_MERGE: "maybe"})


@pytest.mark.usefixtures("many_runs")
def test_a_load_that_is_committed_is_no_error_when_what_follows_fails(
    session: sl.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StorageError("the disk does not answer")

    monkeypatch.setattr(table_loading, "plan_compaction", fails)
    table = session.create_table("t", sl.Schema({"key": "string"}, values={"x": "long"}), properties=LONG)
    loaded = table.bulk_import(rows_with(["a"] * 100, range(100)), merge=False, job_id="1")
    assert "compact t --strategy all" in repr(loaded) or "table.maintenance.compact('all')" in repr(loaded)
    assert [job.state for job in table.inspect.jobs()] == ["FINISHED"]


@pytest.mark.usefixtures("many_runs")
def test_loads_that_are_large_and_new_tables_follow_the_property(
    session: sl.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sleeper_nb.table.load_work.BULK_BYTES", 0)
    schema = sl.Schema({"key": "string"}, values={"x": "long"})
    table = session.create_table("t", schema, properties=LONG)
    assert table.ingest(rows_with(["a"] * 100, range(100))).snapshot.added_files > 1
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text("key,x\n" + "".join(f"{n:03d},{n}\n" for n in range(50)))
    created = session.create_table("new", str(tmp_path / "in"), row_keys=["key"], leaves=2, properties=LONG)
    assert len(created.inspect.files()) == 6
    assert created.scan().count() == 150


def references_of(store: StateStore) -> list[FileReference]:
    state = store.load()
    return list(state.files.active_in({leaf.id for leaf in state.tree.leaves}))


def test_each_file_is_sorted_and_has_statistics_and_a_checksum(tmp_path: Path, files: Path) -> None:
    store = a_store(tmp_path, SCHEMA, ["a", "é"])
    load(store, files, IngestSettings(task_bytes=TASK_BYTES, merge=False))
    for reference in references_of(store):
        found = pq.read_table(store.storage.locate(reference.filename))
        assert keys_of(found) == sorted(keys_of(found))
        assert found.num_rows == reference.rows
        assert reference.checksum
        assert reference.statistics
