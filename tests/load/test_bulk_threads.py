"""Bulk loads by threads of this process: as an ingest, but sorted in parts, in bounded memory, with several files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.engines.spark import gateway
from sleeper_nb.load import sorted_runs
from sleeper_nb.load.bulk_load import BulkLoad, ThreadsWriter, progress_text
from sleeper_nb.load.ingest import IngestSettings
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.sources import find_sources
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.properties import IMPORT_TASK_BYTES
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import SILENT, Progress, Silent
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.builders import a_store, on_disk, scan
from tests.support.combinations import each_value_once

SCHEMA = Schema({"key": "string", "n": "int"}, {"at": "timestamp"}, {"x": "double?"})
ROWS = 20_000
NO_CHECKS: Callable[[Schema], Sequence[object]] = lambda _: ()  # noqa: E731


def rows_of(count: int = ROWS, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    keys = [["", "a", "a\0", "é", "\U0001f600"][i % 5] + f"{i:03d}" for i in random.integers(0, 300, count)]
    return pa.table(
        {
            "key": keys,
            "n": random.integers(-9, 9, count),
            "at": pa.array(random.integers(-(10**15), 10**15, count), pa.timestamp("us", "UTC")),
            "x": pa.array([None if i % 5 == 0 else (float("nan"), -0.0, i / 3)[i % 3] for i in range(count)]),
        }
    ).cast(SCHEMA.arrow)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "PIECE_ROWS", 100)


def three_files(folder: Path) -> Path:
    """Write three Parquet files, of several row groups each, to a new folder."""
    folder.mkdir()
    for number in range(3):
        pq.write_table(rows_of(seed=number), folder / f"{number}.parquet", row_group_size=3_000)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return three_files(tmp_path / "in")


def load(
    store: StateStore,
    data: object,
    settings: IngestSettings,
    progress: Progress = SILENT,
    clock: ManualClock | None = None,
) -> sl.Snapshot:
    sources = find_sources(data)
    writer = ThreadsWriter(store.storage, sources, EXACT, settings, NO_CHECKS, clock or ManualClock(), progress)  # type: ignore[arg-type]
    return BulkLoad(store, sources, EXACT, writer).imported(progress=progress).snapshot or store.head()


def sorted_texts(rows: pa.Table) -> list[str]:
    """A text for each row; its moments are numbers, as Python takes most of a second for 60,000 of its own."""
    columns = (each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in rows.columns)
    return sorted(map(repr, zip(*(each.to_pylist() for each in columns), strict=True)))


@pytest.mark.parametrize(
    ("task_bytes", "strategy"),
    each_value_once([2_000, 200_000, 1 << 28], ["one_reference_per_leaf", "one_file_per_leaf"]),
)
def test_all_rows_are_loaded_in_order_whatever_the_memory(
    tmp_path: Path, files: Path, strategy: str, task_bytes: int
) -> None:
    store = a_store(tmp_path, SCHEMA, ["a", "a\0", "é"])
    made = load(store, files, IngestSettings(strategy, task_bytes=task_bytes))
    assert made.added_rows == 3 * ROWS
    found = scan(store)
    assert sorted_texts(found) == sorted_texts(pa.concat_tables([rows_of(seed=number) for number in range(3)]))
    assert check_table(store, "table", deep=True, progress=Silent()).ok
    if strategy == "one_reference_per_leaf":
        assert made.files == 1
    elif task_bytes == 1 << 28:
        assert made.files == 3  # one of four leaves gets no row
    else:
        assert made.files > 4  # ranges of the keys of a leaf


def test_ranges_of_a_leaf_do_not_overlap(tmp_path: Path, files: Path) -> None:
    store = a_store(tmp_path, SCHEMA, ["é"])
    load(store, files, IngestSettings(task_bytes=200_000))
    state = store.load()
    for leaf in state.tree.leaves:
        ends = sorted((each.min_key[0], each.max_key[0]) for each in state.files.active_in({leaf.id}))
        assert len(ends) > 3
        assert all(high <= low for (_, high), (low, _) in pairwise(ends))


@pytest.mark.parametrize("data", ["memory", "csv"])
def test_other_data_than_parquet(tmp_path: Path, data: str) -> None:
    rows = rows_of(2_000).drop_columns(["x"])
    given: object = rows
    if data == "csv":
        rows.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
        given = str(tmp_path / "rows.csv")
    store = a_store(tmp_path, SCHEMA, ["é"])
    assert load(store, given, IngestSettings(task_bytes=5_000)).added_rows == 2_000
    assert sorted_texts(scan(store).drop_columns(["x"])) == sorted_texts(rows)


def test_no_rows_make_no_snapshot(tmp_path: Path) -> None:
    store = a_store(tmp_path, SCHEMA)
    assert load(store, rows_of(0), IngestSettings()).id == 1
    pq.write_table(rows_of(0), tmp_path / "none.parquet")
    assert load(store, str(tmp_path / "none.parquet"), IngestSettings()).id == 1


def test_the_first_difference_is_raised_and_nothing_is_added(tmp_path: Path, files: Path) -> None:
    for number in (1, 2):
        bad = rows_of().set_column(1, "n", pa.array([2**40 + number] * ROWS))
        pq.write_table(bad, files / f"{number}.parquet", row_group_size=3_000)
    store = a_store(tmp_path, SCHEMA, ["é"])
    with pytest.raises(sl.InvalidInput, match=r"1\.parquet") as error:
        load(store, files, IngestSettings(task_bytes=5_000))
    assert "'n'" in str(error.value)
    assert store.head().id == 1
    assert not [path for path in on_disk(store) if path.startswith("data/")]


@pytest.mark.parametrize("rows", [ROWS // 2, ROWS, 2 * ROWS])
def test_a_file_that_changes_while_it_is_read_in_parts_is_refused(tmp_path: Path, rows: int) -> None:
    class Replacing(ManualClock):
        def now(self) -> datetime:
            """Replace the file: the time is first asked for when the parts are known, and before one is read."""
            pq.write_table(rows_of(rows, seed=7), tmp_path / "new.parquet", row_group_size=3_000)
            (tmp_path / "new.parquet").replace(tmp_path / "x.parquet")
            return super().now()

    pq.write_table(rows_of(), tmp_path / "x.parquet", row_group_size=3_000)
    store = a_store(tmp_path, SCHEMA)
    with pytest.raises(sl.StorageError, match=r"x\.parquet was changed while it was read"):
        load(store, str(tmp_path / "x.parquet"), IngestSettings(task_bytes=5_000), clock=Replacing())
    assert store.head().id == 1
    assert not [path for path in on_disk(store) if path.startswith("data/")]


class Interrupted(Silent):
    """A watcher that is interrupted, as by the stop button, when it hears some words."""

    def __init__(self, words: str) -> None:
        self.words = words

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the watcher's own form
        if self.words in text:
            raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["sorting", "writing files"])
def test_an_interrupt_leaves_no_file(tmp_path: Path, files: Path, step: str) -> None:
    store = a_store(tmp_path, SCHEMA, ["a", "é"])
    with pytest.raises(KeyboardInterrupt):
        load(store, files, IngestSettings(task_bytes=5_000), Interrupted(step))
    assert store.head().id == 1
    assert not [path for path in on_disk(store) if path.startswith("data/")]


def test_the_memory_of_a_task_is_a_property_of_the_table(tmp_path: Path) -> None:
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", SCHEMA, properties={IMPORT_TASK_BYTES: str(16 << 20)})
        assert IngestSettings.of(table.at().properties).task_bytes == 16 << 20
        assert table.bulk_import(rows_of(500)).rows == 500
        with pytest.raises(sl.InvalidInput, match="16777216"):
            session.create_table("other", SCHEMA, properties={IMPORT_TASK_BYTES: "5"})


def test_a_bulk_import_on_one_machine_starts_no_spark(tmp_path: Path) -> None:
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", SCHEMA, ["é"])
        plan = table.bulk_import(rows_of(500), dry_run=True).plan
        assert (plan.rows, plan.through_spark) == (500, False)
        assert table.bulk_import(rows_of(500)).rows == 500
        assert not session._spark_engine().started


def test_progress_tells_rows_a_second_and_the_time_left() -> None:
    assert progress_text("sorting", 0, 0, 0) == "sorting"
    assert progress_text("sorting", 3_000, 2, 0.25) == "sorting, 1,500 rows/s, about 6 s left"
    assert progress_text("sorting", 3_000, 2, 0.9) == "sorting, 1,500 rows/s"


def test_a_session_of_the_process_that_is_on_a_cluster_loads_through_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://host:7077"))
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", SCHEMA, ["é"])
        assert not table.bulk_import(rows_of(5), dry_run=True).plan.through_spark
        assert table.bulk_import(rows_of(5), dry_run=True, engine="spark").plan.through_spark
        monkeypatch.setattr(gateway, "active_session", lambda: on_cluster)
        assert table.bulk_import(rows_of(5), dry_run=True).plan.through_spark
        assert not table.bulk_import(rows_of(5), dry_run=True, engine="local").plan.through_spark
        assert not table.ingest(rows_of(5), dry_run=True).plan.through_spark
