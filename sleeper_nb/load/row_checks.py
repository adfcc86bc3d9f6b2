"""Find the rows that break a CHECK or an expectation of a table, in rows that fit its schema.

Both are conditions as scans take them, parsed and bound by the engine; `RowCheck.broken` is the negation, which a row
meets when the condition is false for it. NULL passes, as in SQL. A row that breaks a CHECK is refused; one that breaks
an expectation is refused or counted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sleeper_nb.errors import Action
from sleeper_nb.load.conform import A_TABLE, BadValue, Difference, no_place
from sleeper_nb.model.expectations import COUNT, Expectation, counts_text
from sleeper_nb.model.properties import EXPECT_ACTION
from sleeper_nb.model.schema import Check
from sleeper_nb.read.row_condition import Condition, RowFilter

_INDEX: Final = "index of the row"
"""A name with spaces, so that no column has it."""
_LONGEST: Final = 60


Rule = Check | Expectation


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A CHECK or an expectation that was bound to a schema.

    Parameters
    ----------
    check
        Its name and text.
    broken
        The condition that the rows meet for which it is false.
    """

    check: Rule
    broken: Condition

    def picklable(self) -> RowCheck:
        """Return the check in a form that can be sent to tasks in other processes."""
        return replace(self, broken=self.broken.picklable())


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """How many rows of a load break each expectation of the table.

    Parameters
    ----------
    conditions
        The expectations, in order.
    broken
        For those that some rows break: how many, and the first row with its file and line.
    """

    conditions: tuple[str, ...] = ()
    broken: Mapping[str, Difference] = field(default_factory=dict)

    def plus(self, other: JudgedRows) -> JudgedRows:
        """Return the counts of two parts of a load, with the first row of each expectation."""
        both = dict(self.broken)
        for condition, found in other.broken.items():
            both[condition] = both[condition].plus(found) if condition in both else found
        return JudgedRows(tuple(dict.fromkeys((*self.conditions, *other.conditions))), both)

    @property
    def text(self) -> str | None:
        """The counts, as a snapshot records them."""
        counts = {each: self.broken[each].values if each in self.broken else 0 for each in self.conditions}
        return counts_text(counts)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each expectation that rows break: how many, and the first of them."""
        return tuple(each.line for each in self.broken.values())


NOT_JUDGED: Final = JudgedRows()
"""The counts of a table without expectations."""


def no_rows_judged(checks: Sequence[RowCheck]) -> JudgedRows:
    """Return the counts of no rows."""
    return JudgedRows(tuple(each.check.condition for each in checks if isinstance(each.check, Expectation)))


@dataclass(frozen=True, slots=True)
class OpenedChecks:
    """Checks that are open for evaluation during one load."""

    filters: Sequence[tuple[Rule, RowFilter]]

    def differences(
        self, rows: pa.Table, place: Callable[[int], str] = no_place, source: str = ""
    ) -> Iterator[Difference]:
        """Yield a difference for each rule that some rows break and that refuses them: how many, and the first.

        Parameters
        ----------
        rows
            Rows with the columns and types of the schema.
        place
            Names a row in messages.
        source
            The file of the rows; "" for data in memory.
        """
        for rule, row_filter in self.filters:
            found = _found(rule, row_filter, rows, place, source) if _refuses(rule) else None
            if found is not None:
                yield found

    def judged(self, rows: pa.Table, place: Callable[[int], str] = no_place, source: str = "") -> JudgedRows:
        """Return how many rows break each expectation; parameters are those of `differences`.

        No row of a load breaks one that refuses rows.
        """
        conditions, broken = [], {}
        for rule, row_filter in self.filters:
            if isinstance(rule, Expectation):
                conditions.append(rule.condition)
                found = None if rule.refuses else _found(rule, row_filter, rows, place, source)
                if found is not None:
                    broken[rule.condition] = found
        return JudgedRows(tuple(conditions), broken)

    def bad_values(self, rows: pa.Table, known: Container[tuple[int, str]] = ()) -> Iterator[BadValue]:
        """Yield each row that breaks a rule, for each rule, also of expectations that only count.

        Parameters
        ----------
        rows
            Rows with the columns and types of the schema.
        known
            Rows and columns whose values are bad for another reason, and NULL here: no check of them is broken.
        """
        for check, row_filter in self.filters:
            for batch in _broken(row_filter, rows):
                for values in batch.to_pylist():
                    row = values.pop(_INDEX)
                    if all((row, name) not in known for name in row_filter.columns):
                        yield BadValue(row, _difference(check, 1, "", values, ""))


def _broken(row_filter: RowFilter, rows: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows that meet a condition: the columns that it names, and the index of each row."""
    names = [name for name in rows.column_names if name in row_filter.columns]
    looked_at = rows.select(names).append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    return list(row_filter.filter(looked_at.to_batches()))


@contextmanager
def opened_checks(checks: Sequence[RowCheck]) -> Iterator[OpenedChecks]:
    """Prepare checks for evaluation."""
    with ExitStack() as stack:
        yield OpenedChecks([(each.check, stack.enter_context(each.broken.opened())) for each in checks])


def _refuses(rule: Rule) -> bool:
    return isinstance(rule, Check) or rule.refuses


def _found(
    rule: Rule, row_filter: RowFilter, rows: pa.Table, place: Callable[[int], str], source: str
) -> Difference | None:
    """Return how many rows break a rule, and the first of them; None when none does."""
    broken = _broken(row_filter, rows)
    count = sum(batch.num_rows for batch in broken)
    if not count:
        return None
    first = next(batch for batch in broken if batch.num_rows).slice(0, 1).to_pylist()[0]
    return _difference(rule, count, place(first.pop(_INDEX)), first, source)


def _difference(rule: Rule, count: int, place: str, values: dict[str, Any], source: str) -> Difference:
    shown, kind = values_text(values), f"{rule.condition} is false"
    first = ": ".join(filter(None, (place, shown)))
    if isinstance(rule, Expectation):
        column, problem = "expectation", f"expectation {rule.condition!r} is broken by {first}"
        python = f"table.set_properties({{{EXPECT_ACTION!r}: {COUNT!r}}})"
        counted = Action(f"properties {A_TABLE} {EXPECT_ACTION}={COUNT}", python)
        hint = ("correct the rows, or count them: ", counted)
    else:
        column, problem = f"check {rule.name}", f"check {rule.name!r} ({rule.condition}) fails for {first}"
        dropped = Action(f"alter {A_TABLE} --drop-check {rule.name}", f"table.alter(checks={{{rule.name!r}: None}})")
        hint = ("correct the rows, or drop the check: ", dropped)
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
