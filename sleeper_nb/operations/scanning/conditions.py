"""A user's condition in SQL, as DataFusion reads and computes it."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.condition_faults import explained
from sleeper_nb.operations.scanning.gathering import gathered

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext

# What a condition is made of, as far as columns and divisions go: literals, quoted names, comments and types are passed
# over, and so is a word that calls a function or begins a literal. Of comments in comments the end stays as it is too.
_PARTS = re.compile(
    r"""
    \b[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
  | "(?:[^"]|"")*" | `(?:[^`]|``)*`
  | --[^\n]* | /\*.*?\*/ | \*/ | //
  | \b[aA][sS]\s+\w+
  | (?P<word>[^\W\d][\w$]*+)(?!\s*[('])
  | (?P<slash>/)
    """,
    re.DOTALL | re.VERBOSE,
)
_IN_DOUBLES = "/ 1e0 /"
"""What divides whole numbers as Spark and DuckDB do: DataFusion divides them whole, but from left to right."""
_EACH_TIME = re.compile(r"\b(random|uuid)\s*\(", re.IGNORECASE)


def condition(rows: DataFrame, where: str, schema: Schema) -> Any:
    """Return a condition as DataFusion's expression, which means what it does in SQL on Spark and DuckDB.

    Its names are columns in any case, and whole numbers divide to a fraction.

    Raises
    ------
    InvalidInput
        When it cannot be read, or names what is no column of `rows`.
    """
    # DataFusion makes plain words lower case; Spark and DuckDB know a column in any case, and so must a condition.
    names = {name.casefold(): f'"{name}"' for name in schema.names if name != name.lower()}

    def exact(found: re.Match[str]) -> str:
        return _IN_DOUBLES if found["slash"] else names.get((found["word"] or "").casefold(), found[0])

    try:
        test = rows.parse_sql_expr(_PARTS.sub(exact, where))
        return _ordered(test) if "/" in where else test
    except Exception as error:  # DataFusion raises a plain Exception for every fault of the text
        raise explained("read", where, error, schema.names) from error


def _ordered(test: Any) -> Any:
    """Return a condition in which 0 / 0 is greater than all numbers, as it is in Spark and DuckDB.

    Processors give it a sign, and DataFusion takes what is no number but has one for less than all.
    """
    joined = []  # a loop, as one may join thousands
    while test.variant_name() == "BinaryExpr" and (sign := test.rex_call_operator()) in _JOINED:
        test, right = test.rex_call_operands()
        joined.append((_JOINED[sign], _ordered(right)))
    if test.variant_name() == "Not":
        test = ~_ordered(*test.rex_call_operands())
    elif test.variant_name() == "BinaryExpr" and (sign := test.rex_call_operator()) in _COMPARED:
        operands = test.rex_call_operands()
        test = _COMPARED[sign](*map(_without_sign, operands)) if any(map(_divides, operands)) else test
    for join, right in reversed(joined):
        test = join(test, right)
    return test


_JOINED: dict[str, Callable[..., Any]] = {"AND": operator.and_, "OR": operator.or_}
_COMPARED: dict[str, Callable[..., Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_COMPUTED = frozenset("+-*/%")


def _divides(value: Any) -> bool:
    """Return whether a value is a fraction for sure: computed by ``+ - * / %`` alone, and by a division."""
    if value.variant_name() != "BinaryExpr" or value.rex_call_operator() not in _COMPUTED:
        return False
    return value.rex_call_operator() == "/" or any(map(_divides, value.rex_call_operands()))


def _without_sign(value: Any) -> Any:
    from datafusion import functions, lit

    return functions.nanvl(value, lit(math.nan)) if _divides(value) else value


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
