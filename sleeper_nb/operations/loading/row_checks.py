"""Find the rows that break a CHECK of a table, in rows that fit its schema.

A CHECK is a condition as scans take it, parsed and bound by the engine; `RowCheck.broken` is its negation, which a row
meets when the CHECK is false for it. NULL passes, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sleeper_nb.errors import Action
from sleeper_nb.model.schema import Check
from sleeper_nb.operations.loading.conform import A_TABLE, BadValue, Difference, no_place
from sleeper_nb.operations.scanning.row_condition import Condition, RowTest

_INDEX: Final = "index of the row"
"""A name with spaces, so that no column has it."""
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A CHECK that was bound to a schema.

    Parameters
    ----------
    check
        Its name and text.
    broken
        The condition that the rows meet for which it is false.
    """

    check: Check
    broken: Condition

    def picklable(self) -> RowCheck:
        """Return the check in a form that can be sent to tasks in other processes."""
        return replace(self, broken=self.broken.picklable())


@dataclass(frozen=True, slots=True)
class OpenedChecks:
    """Checks that are open for evaluation during one load."""

    tests: Sequence[tuple[Check, RowTest]]

    def differences(
        self, rows: pa.Table, place: Callable[[int], str] = no_place, source: str = ""
    ) -> Iterator[Difference]:
        """Yield a difference for each check that some rows break: how many, and the first.

        Parameters
        ----------
        rows
            Rows with the columns and types of the schema.
        place
            Names a row in messages.
        source
            The file of the rows; "" for data in memory.
        """
        for check, test in self.tests:
            broken = _broken(test, rows)
            if count := sum(batch.num_rows for batch in broken):
                first = broken[0].slice(0, 1).to_pylist()[0]
                yield _difference(check, count, place(first.pop(_INDEX)), first, source)

    def bad_values(self, rows: pa.Table, known: Container[tuple[int, str]] = ()) -> Iterator[BadValue]:
        """Yield each row that breaks a check, for each check.

        Parameters
        ----------
        rows
            Rows with the columns and types of the schema.
        known
            Rows and columns whose values are bad for another reason, and NULL here: no check of them is broken.
        """
        for check, test in self.tests:
            for batch in _broken(test, rows):
                for values in batch.to_pylist():
                    row = values.pop(_INDEX)
                    if all((row, name) not in known for name in test.columns):
                        yield BadValue(row, _difference(check, 1, "", values, ""))


def _broken(test: RowTest, rows: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows that meet a condition: the columns that it names, and the index of each row."""
    names = [name for name in rows.column_names if name in test.columns]
    looked_at = rows.select(names).append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    return list(test.matching(looked_at.to_batches()))


@contextmanager
def opened_checks(checks: Sequence[RowCheck]) -> Iterator[OpenedChecks]:
    """Prepare checks for evaluation."""
    with ExitStack() as stack:
        yield OpenedChecks([(each.check, stack.enter_context(each.broken.opened())) for each in checks])


def _difference(check: Check, count: int, place: str, values: dict[str, Any], source: str) -> Difference:
    shown = values_text(values)
    problem = f"check {check.name!r} ({check.condition}) fails for {': '.join(filter(None, (place, shown)))}"
    dropped = Action(f"alter {A_TABLE} --drop-check {check.name}", f"table.alter(checks={{{check.name!r}: None}})")
    hint = ("correct the rows, or drop the check: ", dropped)
    column, kind = f"check {check.name}", f"{check.condition} is false"
    return Difference(column, problem, hint, source, kind, count, example=shown, place=place, unit="row")


def values_text(values: Mapping[str, Any]) -> str:
    """Return some values of a row for an error: ``city = 'a', at = 2026-01-31T12:00:00+00:00, fare = NULL``."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, date | time):
        return value.isoformat()
    text = str(value) if isinstance(value, int | float | Decimal) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
