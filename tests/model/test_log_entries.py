from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import StorageError
from sleeper_nb.model.deletions import DeletionVector
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import (
    Partition,
    PartitionSplit,
    PartitionTree,
    Range,
    Region,
)
from sleeper_nb.model.properties import STATE_STORES
from sleeper_nb.model.statistics import ColumnStatistics
from sleeper_nb.model.transactions import (
    AddFiles,
    ClearTable,
    DeleteFiles,
    EditCounts,
    EditRows,
    MigrateStateStore,
    ReplacedReference,
    ReplaceFileReferences,
    ReplaceTable,
    Rollback,
    SetProcessing,
    SetSchema,
    SplitPartitions,
    Transaction,
    from_entry,
    to_entry,
)
from sleeper_nb.state_store.state_stores import state_store_named
from tests.support.builders import KEYED, START

KEPT = Path(__file__).parents[1] / "data" / "log-entries.jsonl"
FILE = FileReference(
    "data/a.parquet", "root", 10, 1000, ("a", -1), ("m", 2**40), rows_exact=False, only_this_partition=False,
    job_id="job-1", checksum="0123456789abcdef",
    statistics=(ColumnStatistics("value", "string", "x", None, 3), ColumnStatistics("n", "int", -1, 7, 0)),
    deletions=DeletionVector("data/a-deletions.parquet", 2, 40, "fedcba9876543210"),
)  # fmt: skip
PLAIN = FileReference("data/b.parquet", "left", 5, 500, (b"\x00\xff", datetime(2026, 1, 2, tzinfo=UTC)), ("b", None))
TREE = PartitionTree(
    (
        Partition("root", Region((Range(None, None), Range(None, 7))), None, ("left", "right"), 0),
        Partition("left", Region((Range(None, "m"), Range(None, 7))), "root"),
        Partition("right", Region((Range("m", None), Range(None, 7))), "root"),
    )
)
WRITTEN: tuple[Transaction, ...] = (
    AddFiles((FILE, PLAIN)),
    ReplaceFileReferences("job-2", "root", ("data/a.parquet",), PLAIN, ("data/a-deletions.parquet",)),
    EditRows(
        "merge", 7, (ReplacedReference("root", "data/a.parquet", None),), (FILE,), (TREE["left"].region,),
        EditCounts(1, 2, 3),
    ),
    SplitPartitions((PartitionSplit("root", 0, "m", ("left", "right")),), (PLAIN,)),
    Rollback(3, (("left", "data/b.parquet"),), (FILE,), TREE),
    DeleteFiles(("data/b.parquet",)),
    SetProcessing('{"filters":"ageOff(time,3600)"}'),
    MigrateStateStore("TransactionLogStateStore"),
    SetSchema(2, KEYED),
    ClearTable(TREE, 2, KEYED),
    ReplaceTable(3, KEYED, TREE, (PLAIN,), None),
)  # fmt: skip
"""What the entries in `KEPT` were written from, in order; snapshot 1, 2, …, a second apart."""

texts = st.text(max_size=5)
key_values = st.integers(-(2**63), 2**63 - 1) | texts | st.binary(max_size=3)
keys = st.tuples(key_values | st.none(), texts)
references = st.builds(
    FileReference, texts, texts, st.integers(0, 2**40), st.integers(0, 2**40), keys, keys,
    rows_exact=st.booleans(), only_this_partition=st.booleans(), job_id=st.none() | texts,
)  # fmt: skip
splits = st.builds(PartitionSplit, texts, st.integers(0, 3), key_values, st.tuples(texts, texts))
ranges = st.builds(Range, st.none() | key_values, st.none() | key_values)
regions = st.builds(Region, st.lists(ranges, max_size=2).map(tuple))
children = st.just(()) | st.tuples(texts, texts)
partitions = st.builds(Partition, texts, regions, st.none() | texts, children, st.integers(-1, 3))
trees = st.builds(PartitionTree, st.lists(partitions, max_size=3).map(tuple))
transactions = (
    st.builds(AddFiles, st.lists(references, max_size=3).map(tuple))
    | st.builds(ReplaceFileReferences, texts, texts, st.lists(texts).map(tuple), st.none() | references)
    | st.builds(SplitPartitions, st.lists(splits, max_size=3).map(tuple), st.lists(references, max_size=3).map(tuple))
    | st.builds(
        Rollback,
        st.integers(1),
        st.lists(st.tuples(texts, texts)).map(tuple),
        st.lists(references, max_size=3).map(tuple),
        st.none() | trees,
    )
    | st.builds(DeleteFiles, st.lists(texts).map(tuple))
    | st.builds(MigrateStateStore, texts)
    | st.builds(ClearTable, st.none() | trees)
    | st.builds(ClearTable, st.none() | trees, st.integers(2), st.just(KEYED))
)


@given(transactions)
def test_an_entry_comes_back_as_it_was_given(transaction: Any):
    assert from_entry(to_entry(transaction, 7, START), 7) == (transaction, START)


def test_entries_on_disk_keep_their_meaning_whatever_the_classes_are_called():
    entries = KEPT.read_bytes().splitlines()
    found = [from_entry(entry, number) for number, entry in enumerate(entries, 1)]
    assert found == [(each, START + timedelta(seconds=number)) for number, each in enumerate(WRITTEN, 1)]


def test_an_entry_of_each_kind_is_kept():
    kinds = [json.loads(entry)["type"] for entry in KEPT.read_bytes().splitlines()]
    assert kinds == [each.in_log for each in WRITTEN]
    assert set(kinds) == {kind.in_log for kind in Transaction.__subclasses__()}


@pytest.mark.parametrize("name", STATE_STORES)
def test_a_state_store_has_the_name_that_is_on_disk(name: str):
    assert state_store_named(name).name == name


@pytest.mark.parametrize(
    "entry", [b"", b"[]", b'{"type":"Later","time":0}', b'{"type":"AddFiles","time":0,"x":1}', b"{}"]
)
def test_what_is_no_entry_is_an_error(entry: bytes):
    with pytest.raises(StorageError, match="transaction log"):
        from_entry(entry, 7)
