"""A scan as a lazy Polars frame, which says what it needs when it is collected: columns, conditions, first rows."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.errors import EngineError
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    UNKNOWN,
    And,
    Comparison,
    ComparisonOperator,
    IsIn,
    IsNull,
    Or,
    Predicate,
    comparison_of,
    starts_with,
)

if TYPE_CHECKING:
    import polars as pl

logger = logging.getLogger(__name__)

Rows = Callable[[Sequence[str] | None, Predicate, int | None], Iterator[pa.RecordBatch]]
"""Returns rows: of which columns (all when None), only those that may meet a predicate, and how many at most."""

_OPERATORS: Final[Mapping[str, ComparisonOperator]] = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}


def lazy_frame(rows: Rows, schema: pa.Schema) -> pl.LazyFrame:
    """Return a lazy frame of rows with an Arrow schema.

    Each time the frame is collected, `rows` is called with what Polars needs. Polars filters the rows again, so a
    condition that is not understood costs time and changes nothing.

    Raises
    ------
    EngineError
        When Polars is not installed.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise EngineError("Polars is not installed", hint="pip install polars") from error

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        # Polars counts rows before it filters them, so the first n rows must be those of the whole scan
        implied = ALWAYS_TRUE if predicate is None or n_rows is not None else predicate_of_expression(predicate)
        for batch in rows(columns, implied, n_rows):
            frame = pl.DataFrame(pa.Table.from_batches([batch]))
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(source, schema=pl.DataFrame(schema.empty_table()).schema)


def predicate_of_expression(predicate: pl.Expr) -> Predicate:
    """Return what rows must meet at least to meet a condition of Polars; `ALWAYS_TRUE` when it is not understood."""
    try:
        return _read(json.loads(predicate.meta.serialize(format="json")))
    except Exception as error:  # noqa: BLE001 - of whatever kind: Polars filters the rows again
        logger.debug("no partition is pruned by a condition of Polars: %s", error)
        return ALWAYS_TRUE


def _read(node: Any) -> Predicate:
    kind, value = next(iter(node.items())) if isinstance(node, dict) else ("", {})
    if kind == "BinaryExpr":
        if value["op"] in {"And", "LogicalAnd"}:
            return And((_read(value["left"]), _read(value["right"])))
        if value["op"] in {"Or", "LogicalOr"}:
            return Or((_read(value["left"]), _read(value["right"])))
        operator = _OPERATORS.get(value["op"])
        return ALWAYS_TRUE if operator is None else comparison_of(operator, _side(value["left"]), _side(value["right"]))
    if kind == "Function":
        return _of_function(value["function"], value["input"])
    return ALWAYS_TRUE


def _side(node: Any) -> tuple[str | None, Any]:
    """Return the column that a side of a comparison is, and its value."""
    if not isinstance(node, dict):
        return None, UNKNOWN
    return node.get("Column"), _value(node) if "Literal" in node else UNKNOWN


def _of_function(function: Any, inputs: Sequence[Any]) -> Predicate:
    column, literals = inputs[0].get("Column"), inputs[1:]
    if column is None or any("Literal" not in each for each in literals):
        return ALWAYS_TRUE
    boolean, text = function.get("Boolean"), function.get("StringExpr")
    if boolean == "IsNull":
        return IsNull(column)
    if text == "StartsWith" and isinstance(prefix := _value(literals[0]), str):
        return starts_with(column, prefix)
    if not isinstance(boolean, dict):
        return ALWAYS_TRUE
    if "IsIn" in boolean and not boolean["IsIn"]["nulls_equal"]:
        return IsIn(column, tuple(value for value in _value(literals[0]) if value is not None))
    if "IsBetween" in boolean:  # at least between both ends, whichever is open
        low, high = map(_value, literals)
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
    return ALWAYS_TRUE


def _value(literal: Any) -> Any:
    import polars as pl

    expression = pl.Expr.deserialize(io.StringIO(json.dumps(literal)), format="json")
    value = pl.select(expression).item()
    return value.to_list() if isinstance(value, pl.Series) else value
