"""Changes of rows on every state store: vectors come back in every version, and each rule of a change is held."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sleeper_nb.admin.migrate import migrate_state_store
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import AlreadyExists, StateRuleBroken
from sleeper_nb.maintain.check import check_table
from sleeper_nb.model.deletions import DeletionVector
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import PartitionSplit, Range, Region
from sleeper_nb.model.snapshots import SnapshotReference
from sleeper_nb.model.transactions import (
    AddFiles,
    EditCounts,
    EditRows,
    ReplacedReference,
    ReplaceFileReferences,
    SplitPartitions,
    Transaction,
    from_entry,
    to_entry,
)
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions import expire as expiry
from sleeper_nb.versions.resolve import resolve
from sleeper_nb.versions.roll_back import roll_back
from tests.support.backends import Backend, Tables
from tests.support.builders import (
    KEYED,
    START,
    a_file,
    collect,
    compact,
    forget_all_but_newest,
    in_order,
    ingest,
    keys_in,
    on_disk,
    reachable,
    reopened,
    rows_of,
    save,
    scan,
)
from tests.support.deleted_rows import replaced_reference
from tests.support.edits import ALWAYS_VECTORS, NEVER_VECTORS, change

VECTOR = DeletionVector("data/partition_root/v1.parquet", 2, 7, "00ff")


def root_of(store: StateStore) -> str:
    return store.load().tree.root.id


def held(store: StateStore, version: Any = None) -> set[FileReference]:
    state = store.load(version)
    return set(state.files.active_in({each.id for each in state.tree.partitions}))


def changing(store: StateStore, *references: FileReference, **parts: Any) -> EditRows:
    """Return a change of the files that the table has; those that it keeps lose two of ten rows."""
    state = store.load()
    before = state.files.active_in({each.id for each in state.tree.partitions})
    touched = parts.pop("touched", before)
    net = sum(each.rows for each in references) - sum(each.rows for each in touched)
    counts = parts.pop("counts", EditCounts(inserted=max(net, 0), deleted=max(-net, 0)))
    since, watched = parts.pop("since", state.snapshot_id), parts.pop("watched", ())
    assert not parts
    replaced = tuple(map(replaced_reference, touched))
    return EditRows("update", since, replaced, references, watched, counts)


def without_two(file: FileReference, vector: DeletionVector = VECTOR) -> FileReference:
    return dataclasses.replace(file, rows=file.rows - vector.rows, deletions=vector)


def in_two(file: FileReference) -> SplitPartitions:
    """Return the split of the leaf of a file at b: both parts have half of its rows."""
    cut = PartitionSplit(file.partition_id, 0, "b", ("left", "right"))
    half = dataclasses.replace(file, rows=file.rows // 2, only_this_partition=False)
    return SplitPartitions((cut,), tuple(dataclasses.replace(half, partition_id=name) for name in cut.child_ids))


@pytest.fixture
def file(store: StateStore) -> FileReference:
    """A file of ten rows, with the keys from a to c."""
    made = a_file("data/partition_root/f.parquet", root_of(store), 10, keys=("a", "c"), checksum="aa")
    store.commit(AddFiles((made,)))
    return made


def test_a_vector_comes_back_in_each_version_and_counts_in_its_snapshot(store: StateStore, file: FileReference):
    new = a_file("data/partition_root/n.parquet", root_of(store), 3)
    counts = EditCounts(inserted=1, updated=2, deleted=0)
    made = store.commit(changing(store, without_two(file), new, counts=counts))
    later = DeletionVector("data/partition_root/v2.parquet", 5, 9)
    left = dataclasses.replace(file, rows=5, deletions=later)
    store.commit(changing(store, left, touched=(without_two(file),)))
    other = reopened(store)
    assert [held(other, other.catalog.snapshot(store.table_id, number)) for number in (2, 3, 4)] == [
        {file}, {without_two(file), new}, {left, new},
    ]  # fmt: skip
    assert (made.operation, made.inserted_rows, made.updated_rows, made.deleted_rows) == ("update", 1, 2, 0)
    assert (made.rows, made.added_rows, made.files) == (11, 1, 2)
    assert in_order(other.load().files.table.to_pylist()) == in_order(store.load().files.table.to_pylist())


def test_a_file_that_went_twice_is_kept_for_each_version_that_needs_it(store: StateStore):
    ingest(store, rows_of(*"abcd"))
    save(store, "all")
    for key in "ab":
        change(store, delete=lambda row, key=key: row["key"] == key)
    change(store, delete=lambda _: True, settings=NEVER_VECTORS)
    forget_all_but_newest(store)
    collect(reopened(store))
    kept = store.catalog.savepoints(store.table_id)[0]
    assert keys_in(scan(reopened(store), kept)) == list("abcd")
    assert check_table(reopened(store), "table", deep=True, progress=Silent()).ok


def test_vectors_come_back_from_materialised_metadata_savepoints_and_after_migrations(
    tables: Tables, store: StateStore, file: FileReference
):
    store.commit(changing(store, without_two(file)))
    store.materialised(store.head())
    saved = save(store, "kept")
    assert held(reopened(store)) == held(reopened(store), saved) == {without_two(file)}
    for kind in ("TransactionLogStateStore", "S3StateStore", "TransactionLogStateStore"):
        if kind != store.head().state_store:
            migrate_state_store(tables.opened(create=False, clock=store.clock), kind)
        assert held(reopened(store)) == held(reopened(store), saved) == {without_two(file)}
    expiry.expire_snapshots(store, expiry.Retention(timedelta(0), 1, 1), dry_run=False)
    assert held(reopened(store)) == held(reopened(store), saved) == {without_two(file)}


def gone(store: StateStore, file: FileReference) -> EditRows:
    change = changing(store, without_two(file))
    store.commit(ReplaceFileReferences("job", file.partition_id, (file.filename,), None))
    return change


def other_vector(store: StateStore, file: FileReference) -> EditRows:
    change = changing(store, without_two(file))
    store.commit(changing(store, without_two(file, dataclasses.replace(VECTOR, filename="other.parquet"))))
    return change


def no_leaf(store: StateStore, file: FileReference) -> EditRows:
    change = changing(store, a_file("new.parquet", file.partition_id), touched=())
    store.commit(in_two(file))
    return change


def no_partition(store: StateStore, file: FileReference) -> EditRows:
    return changing(store, a_file("new.parquet", "nowhere"), touched=())


def rows_came(store: StateStore, file: FileReference) -> EditRows:
    whole = (Region.whole(KEYED),)
    change = changing(store, a_file("new.parquet", file.partition_id), touched=(), watched=whole)
    store.commit(AddFiles((a_file("came.parquet", file.partition_id),)))
    return change


def wrong_counts(store: StateStore, file: FileReference) -> EditRows:
    return changing(store, without_two(file), counts=EditCounts(deleted=3))


def never_there(store: StateStore, file: FileReference) -> EditRows:
    return dataclasses.replace(changing(store, without_two(file)), replaced=(
        replaced_reference(file), ReplacedReference(file.partition_id, "unknown.parquet", None)))  # fmt: skip


def keys_outside(store: StateStore, file: FileReference) -> EditRows:
    store.commit(in_two(file))
    return changing(store, a_file("new.parquet", "left", keys=("x", "z")), touched=())


@pytest.mark.parametrize(
    ("prepare", "words"),
    [(gone, "changed or compacted"), (other_vector, "changed or compacted"), (never_there, "changed or compacted"),
     (no_leaf, "was split or replaced"), (no_partition, "was split or replaced"), (rows_came, "rows were added"),
     (wrong_counts, "would leave 8 rows where 10 were"), (keys_outside, "keys outside its partition")],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_a_change_that_breaks_a_rule_changes_nothing(
    store: StateStore, file: FileReference, prepare: Callable[[StateStore, FileReference], Transaction], words: str
):
    broken = prepare(store, file)
    before, head = held(store), store.head()
    with pytest.raises(StateRuleBroken, match=words):
        store.commit(broken)
    assert (held(reopened(store)), store.head()) == (before, head)


def test_no_file_is_used_twice(store: StateStore, file: FileReference):
    with pytest.raises(AlreadyExists, match=r"f\.parquet"):
        store.commit(changing(store, a_file(file.filename, file.partition_id, 10), touched=()))
    store.commit(changing(store, without_two(file)))
    again = DeletionVector(VECTOR.filename, 4, 7)
    with pytest.raises(AlreadyExists, match="vector"):
        store.commit(changing(store, dataclasses.replace(file, rows=6, deletions=again), touched=(without_two(file),)))
    assert held(reopened(store)) == {without_two(file)}


def test_a_change_with_rows_elsewhere_is_not_disturbed_by_rows_that_come(store: StateStore, file: FileReference):
    below = (Region.whole(KEYED).narrowed(0, Range("", "b")),)
    planned = changing(store, without_two(file), watched=below)
    came = a_file("data/partition_root/came.parquet", file.partition_id, keys=("d", "e"))
    store.commit(AddFiles((came,)))
    store.commit(planned)
    assert held(reopened(store)) == {without_two(file), came}


def test_a_compaction_that_was_planned_before_a_change_is_refused_and_the_other_way_round(
    store: StateStore, file: FileReference
):
    output = a_file("data/partition_root/out.parquet", file.partition_id, 10)
    compaction = ReplaceFileReferences("job", file.partition_id, (file.filename,), output)
    store.commit(changing(store, without_two(file)))
    with pytest.raises(StateRuleBroken, match="came too late"):
        store.commit(compaction)
    late = changing(store, touched=(without_two(file),))
    store.commit(dataclasses.replace(compaction, deletions=(VECTOR.filename,)))
    with pytest.raises(StateRuleBroken, match="changed or compacted"):
        store.commit(late)
    assert held(reopened(store)) == {output}


def test_a_split_that_was_planned_before_a_change_is_refused_and_the_other_way_round(
    store: StateStore, file: FileReference
):
    late, planned = changing(store, without_two(file)), in_two(file)
    store.commit(late)
    with pytest.raises(StateRuleBroken, match="changed in the meantime"):
        store.commit(planned)
    late, planned = changing(store, touched=(without_two(file),)), in_two(without_two(file))
    store.commit(planned)
    with pytest.raises(StateRuleBroken, match="changed or compacted"):
        store.commit(late)
    assert held(reopened(store)) == {*planned.references}


def test_entries_of_earlier_releases_have_no_vectors():
    file = a_file("f.parquet", "root", 10)
    for transaction in (AddFiles((file,)), ReplaceFileReferences("job", "root", ("f.parquet",), None)):
        entry = to_entry(transaction, 2, START)
        plain = b"{" + entry.split(b",", 1)[1].replace(b',"deletions":null', b"").replace(b',"deletions":[]', b"")
        assert b"deletions" not in plain
        assert from_entry(plain, 2)[0] == transaction
    whole = Region.whole(KEYED)
    replaced = (ReplacedReference("root", "f.parquet", None), ReplacedReference("root", "g.parquet", "v.parquet"))
    rows = EditRows("merge", 7, replaced, (without_two(file), file), (whole,), EditCounts(1, 2, 3))
    assert from_entry(to_entry(rows, 2, START), 2)[0] == rows


# With real files.


@pytest.mark.parametrize("how", [ALWAYS_VECTORS, NEVER_VECTORS], ids=["vectors", "files"])
def test_old_versions_keep_their_rows_until_they_expire_and_then_their_files_go(
    store: StateStore, clock: ManualClock, how: Any
):
    ingest(store, rows_of(*"abcdefgh"))
    change(store, delete=lambda row: row["key"] in "ab", settings=how)
    save(store, "two")
    change(store, delete=lambda row: row["key"] in "cd", insert=rows_of("z"), settings=how)
    roll_back(store, resolve(store.catalog, store.table_id, "table", SnapshotReference(3)), dry_run=False)
    assert keys_in(scan(reopened(store))) == list("cdefgh")
    change(store, update=lambda row: {**row, "key": "y"} if row["key"] == "h" else None, settings=how)
    assert keys_in(scan(reopened(store))) == list("cdefgy")
    forget_all_but_newest(store)
    clock.advance(timedelta(hours=1))
    collect(store)
    kept = store.catalog.savepoints(store.table_id)[0]
    assert keys_in(scan(reopened(store), kept)) == list("cdefgh")
    compact(store)
    assert keys_in(scan(reopened(store))) == list("cdefgy")
    forget_all_but_newest(store)
    collect(store)
    assert {path for path in on_disk(store) if path.startswith("data/")} <= reachable(store)
    assert check_table(store, "table", deep=True, progress=Silent()).ok


def test_a_large_change_on_dynamodb_is_staged_and_counts_once(tmp_path: Any, clock: ManualClock):
    from tests.servers.memory import memory_catalog

    for count in range(1, 7):
        folder = tmp_path / str(count)
        catalog = memory_catalog(folder, max_items=5)
        store = reopened(Backend(folder, in_memory=True).store("DynamoDBStateStore", clock=clock), catalog)
        files = [a_file(f"data/partition_root/f{at}.parquet", root_of(store), 10) for at in range(count)]
        store.commit(AddFiles(tuple(files)))
        left = [without_two(each, dataclasses.replace(VECTOR, filename=f"data/partition_root/v{at}.parquet"))
                for at, each in enumerate(files)]  # fmt: skip
        late = changing(store, *left)
        made = store.commit(late, job_id="change")
        assert held(reopened(store)) == {*left}
        assert (made.rows, made.deleted_rows) == (8 * count, 2 * count)
        with pytest.raises(StateRuleBroken, match="changed or compacted"):
            store.commit(late)
        store.commit(changing(store, touched=tuple(left)))
        assert held(reopened(store)) == set()
        assert not store.sweep()
