"""Aggregations by a sequence give the same rows in whatever parts and order rows are combined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.processing import AGGREGATIONS, COMPARED, DELETE_COLUMN, DataProcessing
from sleeper_nb.model.properties import TableProperties
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.row_processing import Processor
from sleeper_nb.read.value_order import ranks
from tests.support.builders import START
from tests.support.winning_rows import FLOATS, VALUES, Rules, model, order_of, plain, rules


def processor(made: Rules) -> Processor:
    properties = TableProperties({AGGREGATIONS: made.aggregations, DELETE_COLUMN: made.delete_column})
    return Processor.of(DataProcessing.of(properties, made.schema, START), made.schema)


def combined(rows: Sequence[dict[str, Any]], schema: Schema, process: Processor, size: int) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(list(rows), schema.arrow).sort_by([(name, "ascending") for name in schema.sort_order])
    return pa.Table.from_batches(process(table.to_batches(max_chunksize=size)), schema.arrow).to_pylist()


@given(st.data(), st.integers(1, 9))
def test_any_order_of_merging_gives_the_rows_of_the_model(data: st.DataObject, size: int):
    made = data.draw(rules())
    rows = data.draw(st.lists(made.rows(), max_size=9))
    process = processor(made)
    wanted = plain(model(rows, made))
    assert plain(combined(rows, made.schema, process, size)) == wanted
    files: list[list[dict[str, Any]]] = [[] for _ in range(4)]
    for row in rows:
        files[data.draw(st.integers(0, 3))].append(row)
    while len(files) > 1:
        chosen = data.draw(st.lists(st.sampled_from(range(len(files))), min_size=2, unique=True))
        merged = [row for at in chosen for row in files[at]]
        files = [file for at, file in enumerate(files) if at not in chosen]
        files.append(combined(merged, made.schema, process.in_part(), size))
        assert plain(combined([row for file in files for row in file], made.schema, process, size)) == wanted
    again = combined(files[0], made.schema, process.in_part(), size)
    assert plain(again) == plain(files[0])


@pytest.mark.parametrize("kind", sorted(VALUES))
@given(data=st.data())
def test_ranks_have_the_order_of_values(kind: str, data: st.DataObject):
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=8))
    (field,) = Schema({"k": "int"}, {}, {"v": f"{kind}?"}).values
    found = ranks(pa.array(values, field.type.arrow)).tolist()
    assert [sorted(found).index(rank) for rank in found] == [
        sorted(map(order_of, values)).index(order_of(value)) for value in values
    ]
    assert ranks(pa.array([None, *values], field.type.arrow).slice(1)).tolist() == found


def test_floats_have_one_order_and_one_nan():
    for kind in (pa.float32(), pa.float64()):
        values = pa.array([0.0, math.nan, -0.0, -math.inf, math.inf, None], kind)
        assert ranks(values).tolist() == [3, 5, 2, 1, 4, 0]
    assert set(FLOATS) <= set(COMPARED)


def test_types_with_an_order_are_all_tested():
    kinds = {kind.partition("(")[0] for kind in VALUES}
    assert set(COMPARED) <= kinds


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_value_that_is_older_than_its_row_is_compared_as_old_as_it_is(size: int):
    """A batch ends after each row: what is known of a key so far must not make old values look new."""
    schema = Schema({"k": "int"}, {}, {"at": "long", "name": "string?", "begun": "string?"})
    made = Rules(schema, (("last_not_null", "name", "at"), ("first", "begun", "at")))
    rows = [(3, "old", "c"), (5, None, None), (4, "newer", "b"), (1, None, "a"), (2, "oldest", "d")]
    written = [{"k": 1, "at": at, "name": name, "begun": begun} for at, name, begun in rows]
    assert combined(written, schema, processor(made), size) == [{"k": 1, "at": 5, "name": "newer", "begun": "a"}]
    kept = combined(written, schema, processor(made).in_part(), size)
    assert sorted(row["at"] for row in kept) == [1, 4, 5]
