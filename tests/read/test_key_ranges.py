from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datafusion import SessionContext
from hypothesis import example, given
from hypothesis import strategies as st

from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.load.ingest import write_sorted
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.processing import NOTHING
from sleeper_nb.model.schema import Schema
from sleeper_nb.read import read_rows as reading
from sleeper_nb.read.read_rows import key_ranges
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.scan_plan import PlannedFile
from sleeper_nb.storage.data_files import DataFileSettings
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import KEYED, condition, rows_of

SMALL = DataFileSettings(row_group_rows=2)
KEYS = st.lists(st.tuples(st.sampled_from("abcdeé\U0001f600"), st.integers(0, 3)), min_size=1, max_size=12).map(sorted)
BOUND = st.none() | st.sampled_from("bdé")


def written(storage: Storage, name: str, keys: Any, region: Region | None = None) -> PlannedFile:
    import pyarrow as pa

    rows = pa.Table.from_pylist(rows_of(*keys, value=name), schema=KEYED.arrow)
    file = write_sorted(storage, name, KEYED, [rows], SMALL)
    assert file is not None
    return PlannedFile(name, file.rows, file.bytes, region)


def plain(storage: Storage, files: list[PlannedFile], schema: Schema = KEYED) -> list[dict[str, Any]]:
    return [row for batch in reading.merged(files, schema, storage) for row in batch.to_pylist()]


@example([[("a", 0), ("a", 0)], [("a", 0), ("b", 0), ("b", 0), ("b", 1)]], None, None, 1, 5)
@given(st.lists(KEYS, min_size=1, max_size=3), BOUND, BOUND, st.integers(1, 3000), st.none() | st.integers(0, 9))
def test_a_merge_in_key_ranges_gives_what_one_merge_gives(tmp_path_factory, files, low, high, most, limit):
    storage = Storage(tmp_path_factory.mktemp("t"))
    region = Region.whole(KEYED).narrowed(0, Range(low, high))
    planned = [written(storage, f"{n}.parquet", keys, region if n else None) for n, keys in enumerate(files)]
    whole = plain(storage, planned)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "key_ranges", lambda *given: key_ranges(*given, range_bytes=most))
        cut = [row for b in reading.merged(planned, KEYED, storage, limit=limit) for row in b.to_pylist()]
    order = [(row["key"], row["n"]) for row in whole]
    assert order == sorted(order)
    assert [(row["key"], row["n"]) for row in cut] == order[:limit]
    if limit is None:
        assert sorted(map(repr, cut)) == sorted(map(repr, whole))


@pytest.mark.parametrize("limit", range(6))
def test_a_limit_takes_the_first_rows_though_later_row_groups_meet_the_condition_wholly(tmp_path: Path, limit: int):
    storage = Storage(tmp_path)
    keys = [("a", 0), ("b", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]
    part = Region.whole(KEYED).narrowed(0, Range("b", None))
    for files, where in (
        ([written(storage, name, keys, part) for name in ("0.parquet", "1.parquet")], None),
        ([written(storage, "0.parquet", keys, part)], None),
        ([written(storage, name, keys) for name in ("0.parquet", "1.parquet")], condition("key >= 'b'", KEYED)),
        ([written(storage, "0.parquet", keys)], condition("key >= 'b'", KEYED)),
    ):
        with reading.opened_condition(where) as test:
            batches = list(reading.leaf_rows(files, Processor.of(NOTHING, KEYED), storage, where=test, limit=limit))
        rows = [row for batch in batches for row in batch.to_pylist()]
        expected = sorted(key for key in keys * len(files) if key[0] >= "b")
        assert [(row["key"], row["n"]) for row in rows] == expected[:limit]


def test_stretches_meet_at_first_keys_of_row_groups_and_cover_every_key(tmp_path: Path):
    storage = Storage(tmp_path)
    files = [written(storage, f"{n}.parquet", "abcdefgh"[n:]) for n in range(2)]
    cut = list(key_ranges(files, KEYED, storage, 1))
    ranges = [part[0].region.ranges[0] for part in cut if part[0].region]
    assert [r.min for r in ranges] == [None, *"bcdefgh"][: len(ranges)]
    assert [r.max for r in ranges[:-1]] == [r.min for r in ranges[1:]]
    assert ranges[-1].max is None


def test_rows_of_one_key_stay_together(tmp_path: Path):
    storage = Storage(tmp_path)
    files = [written(storage, "f.parquet", [("a", n) for n in range(9)])]
    assert len(list(key_ranges(files, KEYED, storage, 1))) == 1


def test_what_is_small_is_one_stretch_and_no_file_is_opened(tmp_path: Path):
    files = [PlannedFile("not there", 1, 10, None)]
    assert list(key_ranges(files, KEYED, Storage(tmp_path))) == [tuple(files)]


def test_a_harmed_footer_is_an_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = Storage(tmp_path)
    storage.write("f.parquet", b"no parquet at all")
    monkeypatch.setattr(reading, "key_ranges", lambda *given: key_ranges(*given, range_bytes=1))
    with pytest.raises(StorageError, match="not a parquet file"):
        list(reading.merged([PlannedFile("f.parquet", 1, 17, None)], KEYED, storage))


@pytest.mark.parametrize("number", [1, 2])
def test_files_that_go_between_key_ranges_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    storage = Storage(tmp_path)
    files = [written(storage, f"{n}.parquet", "abcdefgh") for n in range(number)]
    monkeypatch.setattr(reading, "key_ranges", lambda *given: key_ranges(*given, range_bytes=1))
    rows = reading.merged(files, KEYED, storage)
    assert next(rows)["key"][0].as_py() == "a"
    storage.delete(files[-1].filename)
    with pytest.raises(NotFound, match=files[-1].filename):
        list(rows)


def test_a_file_that_goes_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage, execute = Storage(tmp_path), SessionContext.execute
    file = written(storage, "f.parquet", "abcdefgh")

    def execute_later(context: SessionContext, plan: Any, partition: int) -> Any:
        storage.delete("f.parquet")
        return execute(context, plan, partition)

    monkeypatch.setattr(SessionContext, "execute", execute_later)
    with pytest.raises(NotFound, match=r"f\.parquet"):
        list(reading.merged([file], KEYED, storage))
