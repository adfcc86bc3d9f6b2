"""The order of keys from whole numbers is Arrow's own, for all types of keys."""

from __future__ import annotations

from datetime import UTC, date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sleeper_nb.clock import ManualClock
from sleeper_nb.load.ingest import cut_by_leaf, sorted_by_leaf
from sleeper_nb.load.sorted_runs import first_from, key_at, key_order, sort_rows
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema

TEXTS = st.one_of(
    st.text(max_size=20),
    st.text("ab\0", max_size=18),
    st.builds(
        lambda prefix, end: prefix + end,
        st.sampled_from(["", "https://example.org/", "é" * 5]),
        st.text("aé\0", max_size=9),
    ),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "bytearray": st.one_of(st.binary(max_size=20), TEXTS.map(str.encode)),
    "int": st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, -1, 2**31 - 1, -(2**31)])),
    "long": st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 2**63 - 1, -(2**63)])),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows of some keys of any types, often equal, and a last column with their numbers."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    schema = Schema({f"k{i}": kind for i, kind in enumerate(kinds)})
    few = [draw(st.lists(VALUES[kind], min_size=1, max_size=12)) for kind in kinds]
    rows = draw(st.integers(0, 40))
    columns = {
        field.name: pa.array(draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows)), field.type.arrow)
        for field, values in zip(schema.fields, few, strict=True)
    }
    return pa.table({**columns, "row": np.arange(rows)})


def names_of(rows: pa.Table) -> list[str]:
    return rows.column_names[:-1]


def by_arrow(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in names_of(rows)])


@given(tables(), st.integers(0, 5))
@example(pa.table({"k0": ["", "\0", "", "\0\0", "a", "a\0"], "row": range(6)}), 0)
@example(pa.table({"k0": ["aaaaaaaab", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaaa"], "row": range(4)}), 1)
@example(pa.table({"k0": ["\uffff", "\U0001f600", "z", "é"], "row": range(4)}), 0)
def test_the_order_is_that_of_the_plain_sort_and_stable(rows: pa.Table, begin: int) -> None:
    rows = rows.slice(begin)  # columns of a slice begin within their buffers
    assert key_order(rows.combine_chunks(), names_of(rows)) is not None
    assert sort_rows(rows, names_of(rows)).equals(by_arrow(rows))


@given(tables(), tables(), st.booleans())
def test_a_key_is_found_among_sorted_rows(rows: pa.Table, other: pa.Table, after: bool) -> None:
    names = names_of(rows)
    found = by_arrow(rows)
    for wanted in (found, other) if other.schema == rows.schema else (found,):
        for index in range(wanted.num_rows):
            key = key_at(wanted, names, index)
            keys = [key_at(found, names, i) for i in range(found.num_rows)]
            count = sum(each < key or (after and each == key) for each in keys)
            assert first_from(found, names, key, after=after) == count


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", None, "a", None]),
        pa.array([2.5, float("nan"), -0.0, 0.0, float("nan")]),
        pa.array([3, 1, 2], pa.uint64()),
        pa.array([True, False]),
    ],
)
def test_what_keys_never_are_is_left_to_the_plain_sort(column: pa.Array) -> None:
    rows = pa.table({"k": column, "row": np.arange(len(column))})
    assert key_order(rows, ["k"]) is None
    assert sort_rows(rows, ["k"])["row"].to_pylist() == by_arrow(rows)["row"].to_pylist()


def test_several_chunks_and_no_rows_are_sorted_too() -> None:
    part = pa.table({"k": ["b", "a"], "row": [0, 1]})
    assert sort_rows(pa.concat_tables([part, part]), ["k"]).to_pydict() == {
        "k": ["a", "a", "b", "b"],
        "row": [1, 1, 0, 0],
    }
    assert sort_rows(part.slice(2), ["k"]).num_rows == 0
    assert sort_rows(part.schema.empty_table(), ["k"]).num_rows == 0


def test_many_rows_of_few_and_of_many_keys() -> None:
    random = np.random.default_rng(3)
    for keys in (1, 5, 300, 10**6):
        numbers = random.integers(0, keys, 20_000)
        rows = pa.table(
            {
                "k": [f"prefix {number:09d}" for number in numbers],
                "t": pa.array(random.integers(-(2**62), 2**62, 20_000), pa.timestamp("us", "UTC")),
                "row": np.arange(20_000),
            }
        )
        assert sort_rows(rows, ["k", "t"]).equals(by_arrow(rows))


SCHEMA = Schema({"k": "string", "n": "int"}, {"d": "date"})


@given(
    st.lists(st.tuples(TEXTS, st.integers(-3, 3), st.dates()), max_size=40),
    st.lists(TEXTS.filter(bool), unique=True, max_size=5),
    st.booleans(),
)
def test_leaves_get_the_rows_that_they_get_by_cuts(
    rows: list[tuple[str, int, date]], points: list[str], by_both_keys: bool
) -> None:
    tree = PartitionTree.from_split_points(SCHEMA, sorted(points), ManualClock().new_id)
    if by_both_keys:
        tree = tree.split(tree.leaves[0].id, 1, 0, ("x", "y"))
    table = pa.table(list(zip(*rows, strict=True)) if rows else [[], [], []], schema=SCHEMA.arrow)
    by_cuts = {
        leaf.id: part.sort_by([(name, "ascending") for name in SCHEMA.sort_order])
        for leaf, part in cut_by_leaf(table, tree, SCHEMA)
    }
    found = {leaf.id: part.combine_chunks() for leaf, part in sorted_by_leaf(table, tree, SCHEMA)}
    assert found == by_cuts
