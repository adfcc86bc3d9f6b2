"""A user's condition in SQL, as DataFusion reads and computes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.condition_faults import explained
from sleeper_nb.operations.scanning.gathering import gathered

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext

# What a condition is made of, as far as columns go: literals, quoted names and types are passed over, and so is a word
# that calls a function or begins a literal.
_WORDS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \bAS\s+\w+ | (?P<word>[^\W\d][\w$]*)(?!\s*[('])""", re.IGNORECASE | re.VERBOSE
)
_EACH_TIME = re.compile(r"\b(random|uuid)\s*\(", re.IGNORECASE)


def condition(rows: DataFrame, where: str, schema: Schema) -> Any:
    """Return a condition as DataFusion's expression; its names are columns in any case.

    Raises
    ------
    InvalidInput
        When it cannot be read, or names what is no column of `rows`.
    """
    # DataFusion makes plain words lower case; Spark and DuckDB know a column in any case, and so must a condition.
    names = {name.casefold(): f'"{name}"' for name in schema.names if name != name.lower()}

    def exact(found: re.Match[str]) -> str:
        return names.get((found["word"] or "").casefold(), found[0])

    try:
        return rows.parse_sql_expr(_WORDS.sub(exact, where))
    except Exception as error:  # DataFusion raises a plain Exception for every fault of the text
        raise explained("read", where, error, schema.names) from error


def check_condition(where: str, schema: Schema) -> None:
    """Raise for a condition that is wrong whatever rows there are: no row is needed to tell.

    Raises
    ------
    InvalidInput
        When it cannot be read, names no column of `schema`, or is not true or false of one row.
    """
    from datafusion import SessionContext

    rows = _frame(SessionContext(), schema.arrow.empty_table())
    test = condition(rows, where, schema)
    try:
        rows.filter(test).execution_plan()
    except Exception as error:  # DataFusion raises a plain Exception for everything
        raise not_computed(where, error, schema) from error


def not_computed(where: str, error: Exception, schema: Schema) -> InvalidInput:
    """Return the error of a condition that was read, but that fails for some row."""
    return explained("compute", where, error, schema.names)


def mentioned(where: str | None, schema: Schema) -> list[str]:
    """Return the columns that a condition may name: at least those that it does."""
    return [name for name in schema.names if where is not None and name.casefold() in where.casefold()]


def is_on(where: str, columns: Sequence[str], schema: Schema) -> bool:
    """Return whether some columns alone tell if a row meets a condition, the same each time.

    Raises
    ------
    InvalidInput
        When the condition cannot be read at all.
    """
    from datafusion import SessionContext

    context = SessionContext()
    condition(_frame(context, schema.arrow.empty_table()), where, schema)
    try:
        condition(_frame(context, schema.arrow.empty_table().select(list(columns))), where, schema)
    except InvalidInput:
        return False
    return _EACH_TIME.search(where) is None


def met(batches: Iterable[pa.RecordBatch], where: str, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield those rows of a stream that meet a condition, in their order."""
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_target_partitions(1))  # more of them would mix the rows' order
    for batch in gathered(batches):  # planning the condition for a small one takes longer than computing it
        rows = _frame(context, batch)
        test = condition(rows, where, schema)
        try:
            found = rows.filter(test).collect()
        except Exception as error:  # DataFusion raises a plain Exception for everything
            raise not_computed(where, error, schema) from error
        yield from (each.to_pyarrow() if hasattr(each, "to_pyarrow") else each for each in found)


def _frame(context: SessionContext, rows: pa.Table | pa.RecordBatch) -> DataFrame:
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    return context.create_dataframe([batches or [pa.RecordBatch.from_pylist([], rows.schema)]])
