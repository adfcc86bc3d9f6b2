"""Which rows of a table a join prunes, whatever else they hold: rules for the plans of all engines. Pure.

An engine turns its plan into `Operator` values, in which each column says which column of an input it comes from. So a
column of a join can be followed down to the table. A row of one side is not needed when the other side has no row with
its key, for the joins of which the engine says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class TableColumn:
    """A column of a table of the plan, by its place."""

    table: str
    column: int


@dataclass(frozen=True, slots=True)
class JoinedKey:
    """A scan of a table needs only rows in which `column` has one of the values of the columns `of`."""

    column: int
    of: frozenset[TableColumn]


ScanKeys = tuple[JoinedKey, ...]
"""What each row of one scan must meet; nothing when it is empty."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the values of a column come from: a column of an input, both by their places.

    Parameters
    ----------
    passes
        Whether each row comes from one row of the input, and no other row depends on that one: if it is not needed,
        neither is the input's.
    """

    input: int
    column: int
    passes: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator of a plan.

    Parameters
    ----------
    inputs
        What it reads.
    columns
        Of its output: where each comes from, None when that is not known. Of a scan, there are none.
    table, scanned
        Of a scan, the table and the places of the output's columns in it.
    is_sampled
        Whether a scan returns only some rows, which depend on all.
    equal
        Of a join, pairs of columns of the left and the right input that are equal in rows that match.
    prunable
        Of a join, the inputs in which a row has no effect when the other has no row with its key.
    all_of
        Whether the output has the rows of all inputs, one after the other: columns are those of each input.
    """

    inputs: tuple[Operator, ...] = ()
    columns: tuple[Origin | None, ...] = ()
    table: str = ""
    scanned: tuple[int, ...] = ()
    is_sampled: bool = False
    equal: tuple[tuple[int, int], ...] = ()
    prunable: frozenset[int] = frozenset()
    all_of: bool = False

    @property
    def width(self) -> int:
        return len(self.scanned) if self.table else len(self.columns)

    def below(self) -> Iterator[Operator]:
        """Yield the operator and all below it."""
        waiting = [self]
        while waiting:
            operator = waiting.pop()
            yield operator
            waiting += operator.inputs


NOTHING_KNOWN: Final = Operator()


def joined_keys(roots: Iterable[Operator]) -> dict[str, tuple[ScanKeys, ...]]:
    """Return what the rows of each scan of a table must meet, by the table's name."""
    operators = [operator for root in roots for operator in root.below()]
    needs = _Needs({id(each): [] for each in operators if each.table})
    for operator in operators:
        for left, right in operator.equal:
            needs.add_of_pair(operator, (left, right))
    found: dict[str, list[ScanKeys]] = {}
    for each in operators:
        if each.table:
            found.setdefault(each.table, []).append(tuple(needs.of_scans[id(each)]))
    return {table: tuple(scans) for table, scans in found.items()}


@dataclass(frozen=True, slots=True)
class _Needs:
    """Collects what each scan must meet, by the identity of its operator."""

    of_scans: dict[int, list[JoinedKey]] = field(default_factory=dict)

    def add_of_pair(self, join: Operator, pair: tuple[int, int]) -> None:
        for side in join.prunable:
            of = _values(join.inputs[1 - side], pair[1 - side])
            if of:
                self._add(join.inputs[side], pair[side], of)

    def _add(self, operator: Operator, place: int, of: frozenset[TableColumn]) -> None:
        """Note that rows are not needed when a column's value, not null, is none of the values of `of`."""
        if operator.table:
            if not operator.is_sampled:
                self.of_scans[id(operator)].append(JoinedKey(operator.scanned[place], of))
            return
        origin = operator.columns[place]
        if origin is None or not origin.passes:
            return
        for at in range(len(operator.inputs)) if operator.all_of else (origin.input,):
            self._add(operator.inputs[at], origin.column, of)
        for pair in operator.equal:
            if pair[origin.input] == origin.column:
                self._add(operator.inputs[1 - origin.input], pair[1 - origin.input], of)


def _values(operator: Operator, place: int) -> frozenset[TableColumn] | None:
    """Return columns of tables that have every value, not null, of a column; None when that is not known."""
    if operator.table:
        return frozenset({TableColumn(operator.table, operator.scanned[place])})
    origin = operator.columns[place]
    if origin is None:
        return None
    read = operator.inputs if operator.all_of else (operator.inputs[origin.input],)
    parts = [_values(each, origin.column) for each in read]
    known = [part for part in parts if part is not None]
    return frozenset[TableColumn]().union(*known) if len(known) == len(parts) else None
