"""How a Spark task reports to the driver the data files that it wrote: a row for each file and leaf with rows in it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from sleeper_nb.engines.spark.frames import columns_text
from sleeper_nb.load.ingest import references_to
from sleeper_nb.load.row_checks import NOT_JUDGED, JudgedRows, RowCheck, no_rows_judged
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import KeyValue, key_from_json, key_to_json
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Field, FieldType
from sleeper_nb.model.statistics import from_text, to_text
from sleeper_nb.storage.data_files import DataFile


def _result_fields() -> list[Field]:
    whole = [Field(name, FieldType("long")) for name in ("leaf", "leaf_rows", "attempt", "rows", "bytes")]
    texts = [Field(name, FieldType("string")) for name in ("filename", "checksum", "statistics", "min_key", "max_key")]
    return [*whole, *texts, Field("judged", FieldType("bytearray"))]


_RESULT_FIELDS: Final = _result_fields()
RESULT_DDL: Final = columns_text(_RESULT_FIELDS)
"""Spark's columns of `result`; keys are JSON, as PySpark returns timestamps in the time zone of this process."""


def result(
    file: DataFile | None,
    leaf_rows: Mapping[int, int] | None = None,
    attempt: int = 0,
    judged: JudgedRows = NOT_JUDGED,
) -> pa.RecordBatch:
    """Return the report of a task: its file, None when it had no rows, and how many rows of which leaf it has.

    Parameters
    ----------
    file
        What the task wrote.
    leaf_rows
        By the index of each leaf in the tree's leaves; None where the driver knows it.
    attempt
        How often the task was started before.
    judged
        How many of the rows break each expectation of the table.
    """
    row: dict[str, Any] = {"rows": 0, "attempt": attempt, "leaf": 0, "leaf_rows": 0}
    if file is not None:
        row |= {"filename": file.filename, "rows": file.rows, "bytes": file.bytes, "checksum": file.checksum}
        row["statistics"] = to_text(file.statistics)
        row |= {"min_key": _key_text(file.min_key), "max_key": _key_text(file.max_key)}
    if judged.conditions:
        row["judged"] = pickle.dumps(judged)
    columns = pa.schema([pa.field(field.name, field.type.arrow) for field in _RESULT_FIELDS])
    rows = [{**row, "leaf": leaf, "leaf_rows": count} for leaf, count in (leaf_rows or {0: 0}).items()]
    return pa.RecordBatch.from_pylist(rows, schema=columns)


def _key_text(key: Sequence[KeyValue]) -> str:
    return json.dumps([key_to_json(value) for value in key])


def _key(text: str) -> tuple[KeyValue, ...]:
    return tuple(map(key_from_json, json.loads(text)))


def data_file(row: Any) -> DataFile | None:
    """Return the file that a row of `result` reports; None when the task had no rows."""
    if not row["rows"]:
        return None
    ends, statistics = (_key(row["min_key"]), _key(row["max_key"])), from_text(row["statistics"])
    return DataFile(row["filename"], row["rows"], row["bytes"], *ends, row["checksum"], statistics)


def judged_of(rows: Sequence[Any], checks: Sequence[RowCheck]) -> JudgedRows:
    """Return how many rows of all files break each expectation; each file counts once for its leaves."""
    by_file = {row["filename"]: row["judged"] for row in rows if row["rows"] and row["judged"] is not None}
    found = (pickle.loads(bytes(each)) for each in by_file.values())  # noqa: S301 - our own tasks made it
    return reduce(JudgedRows.plus, found, no_rows_judged(checks))


def references_of(rows: Sequence[Any], tree: PartitionTree) -> Iterator[tuple[FileReference, int]]:
    """Yield the reference that each leaf gets, and how often the task that wrote its file was started before."""
    of_file = attrgetter("filename")
    for _, group in groupby(sorted(rows, key=of_file), of_file):
        reports = list(group)
        file = data_file(reports[0])
        assert file is not None  # noqa: S101 - a task without rows reports nothing
        for reference in references_to(file, {tree.leaves[row["leaf"]].id: row["leaf_rows"] for row in reports}):
            yield reference, reports[0]["attempt"]
