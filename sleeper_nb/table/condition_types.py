"""Refuse a condition of a change that is no condition, such as the name of a column, before any row is read.

DuckDB takes numbers for true or false, so ``DELETE FROM t WHERE id`` would delete every row whose id is not 0. Its
binder tells the type of an expression over tables without rows, where its operators do not. Spark refuses such
conditions itself.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from sleeper_nb.change.row_changes import RowChange
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.sql_values import Slice
from sleeper_nb.sql.expressions import is_plainly_condition
from sleeper_nb.sql.found_rows import SOURCE, TARGET, conditions_by_tables, query_of_conditions
from sleeper_nb.sql.grammar import placed
from sleeper_nb.table.searched_version import SearchedVersion

_CONDITIONS: Final = frozenset({"BOOLEAN", '"NULL"', "boolean", "void"})
_LONGEST: Final = 40
"""A condition up to so many characters is repeated in a hint."""


def check_are_conditions(change: RowChange, version: SearchedVersion, source: pa.Table | None) -> None:
    """Raise `InvalidInput` for a condition that is a number, a text or another value; `source` is that of a merge."""
    empty = {TARGET: version.schema.arrow.empty_table()}
    if source is not None:
        empty[SOURCE] = source.slice(0, 0)
    for asked in conditions_by_tables(change):
        conditions, _ = asked
        if all(map(is_plainly_condition, conditions)):
            continue
        kinds = version.unread(query_of_conditions(change.named_queries, asked), empty).kinds
        if len(kinds) != len(conditions):  # COLUMNS(*) of DuckDB, which it refuses where one condition is expected
            continue
        wrong = next((pair for pair in zip(conditions, kinds, strict=True) if pair[1] not in _CONDITIONS), None)
        if wrong is not None:
            raise placed(_no_condition(*wrong), wrong[0].written, wrong[0].at)


def _no_condition(condition: Slice, kind: str) -> InvalidInput:
    from sleeper_nb.engines.duckdb.conditions import type_name

    is_short = len(condition.text) <= _LONGEST and "\n" not in condition.text
    hint = f"compare it: {condition.text} = …" if is_short else "compare it with a value: … = 5"
    return InvalidInput(f"the condition is a value of type {type_name(kind)}, not true or false", hint=hint)
