"""Errors of streams that DuckDB reads: the error itself arrives, with what each face makes of its hint."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.engines.duckdb.relations import ArrowStream
from sleeper_nb.errors import CHECK, InvalidInput, NotFound, SleeperError, StorageError

SCHEMA = pa.schema([("n", pa.int64())])


def rows_then(error, rows=0):
    def batches():
        yield pa.record_batch([pa.array(range(rows))], SCHEMA)
        raise error

    return duckdb.connect().from_arrow(ArrowStream(SCHEMA, batches))


@pytest.mark.parametrize(
    "read",
    [relations.to_arrow, relations.count, lambda rows: list(relations.batches(rows, 10))],
    ids=["to_arrow", "count", "batches"],
)
@pytest.mark.parametrize("rows", [0, 50_000])
def test_an_error_of_a_stream_arrives_as_it_was_raised(read, rows):
    error = StorageError("a file is damaged", hint=("look at all of them: ", CHECK))
    error.place = "line 3\n  ^"
    with pytest.raises(StorageError) as caught:
        read(rows_then(error, rows))
    arrived = caught.value
    assert (type(arrived), arrived.message, arrived.place) == (StorageError, error.message, error.place)
    assert arrived.hint_parts == error.hint_parts
    arrived.prefix = "%sleeper"
    assert arrived.hint == "look at all of them: %sleeper check T"


def test_each_of_two_errors_arrives_for_its_own_stream():
    first, second = (rows_then(kind("gone", hint=hint)) for kind, hint in ((NotFound, "a"), (InvalidInput, "b")))
    for rows, kind, hint in ((second, InvalidInput, "b"), (first, NotFound, "a"), (second, InvalidInput, "b")):
        with pytest.raises(SleeperError) as caught:
            relations.to_arrow(rows)
        assert (type(caught.value), caught.value.hint) == (kind, hint)
