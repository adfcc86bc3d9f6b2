"""Before and after images of updated rows: by key, against plain counting, and as a user asks for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.read import read_rows
from sleeper_nb.versions import row_differences, row_images
from tests.support.builders import EMBEDDED, a_store, rows_of
from tests.support.builders import ingest as add_rows
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change
from tests.support.examples import examples
from tests.versions.test_row_differences import compared

LETTERS = st.sampled_from("abcdefg")
ROWS = st.lists(st.tuples(LETTERS, st.sampled_from([None, "x", "y"])), max_size=12)


def expected(old: Counter[Any], new: Counter[Any]) -> Counter[Any]:
    """Pair by hand what is left of two versions."""
    by_key: dict[Any, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((old - new, new - old)):
        for row in rows.elements():
            by_key[row[:2]][side].append(row)
    found = Counter()
    for removed, added in by_key.values():
        kinds = ("removed", "added")
        if len(removed) == len(added) == 1:
            kinds = ("update_preimage", "update_postimage")
        found.update((kinds[0], *row) for row in removed)
        found.update((kinds[1], *row) for row in added)
    return found


def row_by_row(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch.slice(i, 1) for batch in batches for i in range(batch.num_rows))


@examples(60)
@given(old=ROWS, new=ROWS, split=st.booleans(), small=st.booleans())
def test_a_key_with_one_removed_and_one_added_row_is_an_update(tmp_path_factory, old, new, split, small):
    store = a_store(tmp_path_factory.mktemp("t"), points=["c"] if split else [])
    with pytest.MonkeyPatch.context() as patch:
        if small:  # so that rows of one key are in several batches
            patch.setattr(
                row_differences, "coalesced", lambda batches: (b.slice(i, 1) for b in batches for i in range(len(b)))
            )
        versions = []
        for data in (old, new):
            change(store, delete=lambda _: True)
            rows = [row for key, value in data for row in rows_of(key, value=value)]
            versions.append(add_rows(store, rows).id if rows else store.head().id)
        comparison = compared(store, *versions)
        batches = list(row_images.stream_images(comparison, store.storage, "change"))
        summary = row_images.summarize_images(comparison, store.storage, 3)
    counts = [Counter((key, 0, value) for key, value in data) for data in (old, new)]
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert Counter(found) == expected(*counts)
    in_leaf = [(row[1] >= "c" and split, row[1], row[0] in {"added", "update_postimage"}) for row in found]
    assert in_leaf == sorted(in_leaf)
    kinds = Counter(row[0] for row in found)
    assert row_images.count_images(comparison, store.storage) == (
        kinds["added"], kinds["update_postimage"], kinds["removed"]
    )  # fmt: skip
    assert summary.counts == row_images.count_images(comparison, store.storage)
    assert sum(summary.cells.values()) == kinds["update_postimage"]  # rows differ in no other column
    kept = {
        "added": summary.inserted, "removed": summary.deleted,
        "update_preimage": summary.before, "update_postimage": summary.after,
    }  # fmt: skip
    for kind, first in kept.items():
        assert [tuple(row.values()) for row in first.rows.to_pylist()] == [r[1:] for r in found if r[0] == kind][:3]
    order = sorted((place, kind) for kind, first in kept.items() for place in first.places)
    left = dict.fromkeys(kept, 3)
    in_order = []
    for kind, *_ in found:
        if left[kind]:
            left[kind] -= 1
            in_order.append(kind)
    assert [kind for _, kind in sorted(order, key=lambda each: (each[0], each[1] == "update_postimage"))] == in_order


@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize("settings", [ALWAYS_VECTORS, NEVER_VECTORS])
def test_an_update_of_rows_of_a_file_has_both_images(tmp_path, kind, settings):
    store = a_store(tmp_path, kind=kind, points=["d"])
    add_rows(store, rows_of(*"abcdef"))
    change(
        store,
        delete=lambda row: row["key"] == "a",
        update=lambda row: {**row, "value": "new"} if row["key"] in "be" else None,
        insert=rows_of("g"),
        settings=settings,
    )
    comparison = compared(store, 2, 3)
    assert row_images.count_images(comparison, store.storage) == (1, 2, 1)
    batches = row_images.stream_images(comparison, store.storage, "change")
    assert [(row["change"], row["key"], row["value"]) for batch in batches for row in batch.to_pylist()] == [
        ("removed", "a", None),
        ("update_preimage", "b", None),
        ("update_postimage", "b", "new"),
        ("update_preimage", "e", None),
        ("update_postimage", "e", "new"),
        ("added", "g", None),
    ]


@pytest.fixture(params=EMBEDDED)
def table(request, tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table(
            "t", sl.Schema({"k": "int"}, values={"v": "long?"}), [5], state_store=request.param
        )
        table.ingest([{"k": k, "v": k} for k in range(10)])
        yield table


def kinds_of(changes: sl.Changes | Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in changes.rows().to_arrow().to_pylist()]


def test_images_of_a_table_are_asked_for(table):
    table.update({"v": "v + 100"}, "k IN (3, 7)")
    table.delete("k = 8")
    table.ingest([{"k": 11, "v": 1}])
    plain = table.changes(2, 5)
    assert {row[0] for row in kinds_of(plain)} == {"added", "removed"}
    assert plain.count() == (3, 3)
    assert plain.count_images() == (1, 2, 1)
    images = table.changes(2, 5, images=True)
    assert kinds_of(images) == [
        ("update_preimage", 3, 3),
        ("update_postimage", 3, 103),
        ("update_preimage", 7, 7),
        ("update_postimage", 7, 107),
        ("removed", 8, 8),
        ("added", 11, 1),
    ]
    assert images.count() == (3, 3)
    assert kinds_of(table.changes(5, 2, images=True))[0] == ("update_preimage", 3, 103)
    assert "removed, added and updated" in repr(images)
    assert kinds_of(table.changes(2, 5, images=True, where="v > 50")) == [("added", 3, 103), ("added", 7, 107)]
    report = table.diff(2, 5, images=True)
    assert (report.images, report.rows_added, report.rows_removed) == ((1, 2, 1), 3, 3)
    assert "by key: 1 inserted, 2 updated, 1 deleted" in repr(report)
    assert report.to_dict()["rows_updated"] == 2
    assert "rows_updated" not in table.diff(2, 5).to_dict()


def test_a_summary_counts_values_of_each_column_and_keeps_the_first_rows(table):
    table.update({"v": "CASE WHEN k = 3 THEN NULL ELSE v + 100 END"}, "k IN (3, 7)")
    table.update({"v": "v"}, "k = 4")
    table.delete("k = 8")
    table.ingest([{"k": k, "v": 1} for k in range(100, 160)])
    summary = table.changes(2, 6).summary(2)
    assert (summary.counts, summary.cells) == ((60, 2, 1), {"v": 2})
    assert summary.inserted.rows.to_pylist() == [{"k": 100, "v": 1}, {"k": 101, "v": 1}]
    assert (summary.before.rows["v"].to_pylist(), summary.after.rows["v"].to_pylist()) == ([3, 7], [None, 107])
    assert summary.before.places == summary.after.places == (0, 1)
    assert (summary.deleted.places, summary.inserted.places) == ((2,), (3, 4))


def test_of_rows_that_metadata_counts_only_those_that_are_kept_are_read(table, monkeypatch):
    table.ingest([{"k": k, "v": 0} for k in (*range(5), *range(20, 50))])
    changes, read = table.changes(2, 3), []
    monkeypatch.setattr(
        row_differences, "leaf_rows", lambda files, *_: (read.append(files), *read_rows.leaf_rows(files, *_))[1:]
    )
    assert changes.bytes == 0
    assert changes.summary(3).counts == (35, 0, 0)
    assert len(read) == 1
    assert table.changes(3, 2).summary(100).deleted.places == tuple(range(35))


def test_images_stay_after_a_compaction_a_split_and_an_alteration(table):
    table.update({"v": "v + 100"}, "k = 3")
    images = kinds_of(table.changes(2, 3, images=True))
    table.maintenance.split(at=2)
    table.maintenance.compact("all")
    assert kinds_of(table.changes(2, images=True)) == images
    table.alter({"w": "long?"})
    table.update({"w": "1"}, "k = 4")
    assert kinds_of(table.changes(2, images=True)) == [
        *((*row, None) for row in images),
        ("update_preimage", 4, 4, None),
        ("update_postimage", 4, 4, 1),
    ]
    assert table.changes(2, images=True).count_images() == (0, 2, 0)
    table.rollback(2)
    assert table.changes(2).count_images() == (0, 0, 0)


@pytest.mark.parametrize("kind", EMBEDDED)
def test_of_a_large_file_only_row_groups_with_changed_rows_are_read(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(read_rows, "CHECKED_BYTES", 0)  # the file counts as large
    vectors = {
        "sleeper.table.deletion.vector.percent.max": "100", "sleeper.table.deletion.vector.file.bytes.min": "0",
        "sleeper.table.parquet.rowgroup.rows.max": "10",
    }  # fmt: skip
    with sl.connect(tmp_path) as session:
        schema = sl.Schema({"k": "int"}, values={"v": "long?"})
        table = session.create_table("t", schema, state_store=kind, properties=vectors)
        table.ingest([{"k": k, "v": k} for k in range(100)])
        table.delete("k IN (5, 59, 60, 99)")
        table.delete("k = 7")
        (file,) = tmp_path.rglob(Path(table.inspect.files()[0]["filename"]).name)
        damage(file, group=3)
        with pytest.raises(sl.StorageError):
            table.scan().to_arrow()
        assert "1 file of both versions differs by deletion vectors" in repr(table.diff(2))
        assert kinds_of(table.changes(2)) == [("removed", k, k) for k in (5, 7, 59, 60, 99)]
        assert kinds_of(table.changes(4, 2)) == [("added", k, k) for k in (5, 7, 59, 60, 99)]
        assert kinds_of(table.changes(3, 4)) == [("removed", 7, 7)]


def damage(file: Path, group: int) -> None:
    """Overwrite the pages of a row group."""
    column = pq.ParquetFile(file).metadata.row_group(group).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    with file.open("r+b") as stream:
        stream.seek(start)
        stream.write(b"\0" * column.total_compressed_size)
