"""DuckDB: rows as a table's filters, iterator and aggregations give them; by DuckDB itself where it does the same.

What DuckDB does itself, it does to the files and columns that a statement needs. The rest is a stream of the kernel of
`sleeper_nb.operations.processing.processing`, which has no knowledge of the statement.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from sleeper_nb.model.processing import Aggregation
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.operations.processing.processing import Processor, in_microseconds
from sleeper_nb.operations.scanning.planning import ScanPlan
from sleeper_nb.operations.scanning.reading import stream
from sleeper_nb.storage.filesystem import Storage

_TYPES = {"int": "INTEGER", "long": "BIGINT"}
_HUGEINT_DIGITS = 38
"""Sums of decimals with so many digits can go beyond them unseen."""


def is_native(plan: ScanPlan) -> bool:
    """Return whether DuckDB itself can do what a plan does with its rows, with the same result to the last digit."""
    done = plan.processing
    return done.iterator is None and all(_in_sql(each, plan.schema) is not None for each in done.aggregations)


def processed(rows: duckdb.DuckDBPyRelation, plan: ScanPlan) -> duckdb.DuckDBPyRelation:
    """Return the rows of files as DuckDB filters and combines them."""
    done, schema = plan.processing, plan.schema
    for each in done.filters:
        oldest = each.oldest_kept(done.now)
        is_time = pa.types.is_timestamp(schema.arrow.field(each.field).type)
        least = f"make_timestamptz({in_microseconds(oldest)})" if is_time else f"{oldest}"
        rows = rows.filter(duckdb.SQLExpression(f"{_quoted(each.field)} >= {least}"))  # a null is no time, and goes
    if not done.aggregations:
        return rows
    values = {each.field: _in_sql(each, schema) for each in done.aggregations}
    chosen = [f"{values.get(name) or _quoted(name)} AS {_quoted(name)}" for name in schema.names]
    return rows.aggregate(", ".join(chosen), ", ".join(map(_quoted, schema.sort_order)))


def _in_sql(each: Aggregation, schema: Schema) -> str | None:
    """Return an aggregation in DuckDB's SQL, which fails where a sum does not fit its field; None where it differs."""
    (field,) = (field for field in schema.values if field.name == each.field)
    if each.of_maps:
        return None
    if each.operation != "sum":
        return f"{each.operation}({_quoted(field.name)})"
    kind = _summed_type(field)
    return None if kind is None else f"CAST(sum({_quoted(field.name)}) AS {kind})"


def _summed_type(field: Field) -> str | None:
    # not float and double: DuckDB adds them in an order of its own, and rounds otherwise each time
    if field.type.name == "decimal" and field.type.arguments[0] < _HUGEINT_DIGITS:
        return str(field.type)
    return _TYPES.get(field.type.name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class ProcessedRows:
    """The rows of a plan as an Arrow stream: DuckDB begins a new one each time that it scans the relation."""

    plan: ScanPlan
    storage: Storage

    @classmethod
    def of(cls, plan: ScanPlan, storage: Storage) -> ProcessedRows:
        """Make it; an iterator that is not there is an error at once."""
        Processor.of(plan.processing, plan.schema)
        return cls(plan, storage)

    def __arrow_c_schema__(self) -> object:
        return self.plan.schema.arrow.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        rows = pa.RecordBatchReader.from_batches(self.plan.schema.arrow, stream(self.plan, self.storage))
        return rows.__arrow_c_stream__(requested_schema)
