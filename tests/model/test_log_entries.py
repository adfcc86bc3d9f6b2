from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import StorageError
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.partitions import (
    Partition,
    PartitionSplit,
    PartitionTree,
    Range,
    Region,
)
from sleeper_nb.model.transactions import (
    AddFiles,
    ClearTable,
    DeleteFiles,
    MigrateStateStore,
    ReplaceFileReferences,
    Rollback,
    SplitPartitions,
    from_entry,
    to_entry,
)
from tests.support.builders import KEYED, START

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


@pytest.mark.parametrize(
    "entry", [b"", b"[]", b'{"type":"Later","time":0}', b'{"type":"AddFiles","time":0,"x":1}', b"{}"]
)
def test_what_is_no_entry_is_an_error(entry: bytes):
    with pytest.raises(StorageError, match="transaction log"):
        from_entry(entry, 7)
