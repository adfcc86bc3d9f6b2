"""The statements that the methods of a table for changes of rows run, as text around the user's conditions. Pure.

Values, and the keys of regions, are parameters; names are quoted. Each text of the user is one expression, so it
cannot end the clause that it stands in (`StatementWriter.expression`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from sleeper_nb.errors import Action, InvalidInput, NotFound
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.sql.expressions import read_expression
from sleeper_nb.sql.grammar import StatementReader
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Dialect, quote_name

NEW_ROWS: Final = "sleeper:new rows"
"""What the rows of an upsert, merge or overwrite are read by: no table has this name."""
SOURCE_NAME, TARGET_NAME = "source", "target"
"""How expressions call these rows, and the table."""
_ENDS: Final = frozenset({",", "WHERE", "WHEN", "THEN"})
"""Where an expression ends in one of the statements."""


@dataclass(frozen=True, slots=True)
class ParameterizedSql:
    """A statement and its parameters."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatementWriter:
    """Writes statements about one table.

    Parameters
    ----------
    table, schema
        Its name and current schema.
    dialect
        Of the engine that runs the statements.
    """

    table: str
    schema: Schema
    dialect: Dialect

    def expression(self, text: str, what: str) -> str:
        """Return a condition or value of the user's, without a comment after it, which would hide what follows.

        Raises
        ------
        InvalidInput
            When it is not exactly one expression.
        """
        hint = "write one expression of SQL, such as n > 5 or lower(s)"
        reader = StatementReader(Statement.of(text, dialect=self.dialect))
        part = read_expression(reader, what, hint, stops=_ENDS)
        if not reader.is_at_end:
            raise reader.error(f"{what} should end before {reader.word or 'here'}", hint, reader.offset)
        return part.text

    def delete(self, where: str | None) -> str:
        """Return ``DELETE``; of all rows without a condition."""
        return f"DELETE FROM {self.quoted(self.table)}{self._where(where)}"  # noqa: S608 - the user's own condition

    def update(
        self, updates: Mapping[str, str], new_values: Mapping[str, Any], where: str | None, taken: Collection[str] = ()
    ) -> ParameterizedSql:
        """Return ``UPDATE``; `updates` are expressions of SQL, `new_values` Python values.

        `taken` are the names of the user's own parameters.
        """
        if not updates and not new_values:
            example = Action('--set "fare = fare * 1.1"', "updates={'fare': 'fare * 1.1'}, or new_values={'fare': 9.5}")
            raise InvalidInput("update sets no column", hint=("add ", example))
        if twice := sorted(updates.keys() & new_values.keys()):
            raise InvalidInput(
                f"column {twice[0]!r} gets two values",
                hint=("name it once: ", Action("--set or --value", "in updates or in new_values")),
            )
        wrong = next((name for name, value in updates.items() if not isinstance(value, str)), None)
        if wrong is not None:
            hint = f"new_values={{{wrong!r}: {updates[wrong]!r}}} sets a Python value"
            raise InvalidInput(f"the new value of {wrong!r} in updates is no SQL", hint=hint)
        given = {name: self.expression(text, f"the new value of {name!r}") for name, text in updates.items()}
        names, parameters, named = free_names("new_value", taken), dict[str, Any](), dict[str, str]()
        for column, value in new_values.items():
            named[column], own = self._new_value(column, value, names)
            parameters |= own
        assigned = ", ".join(f"{self.quoted(name)} = {value}" for name, value in {**given, **named}.items())
        text = f"UPDATE {self.quoted(self.table)} SET {assigned}{self._where(where)}"  # noqa: S608 - as in `delete`
        return ParameterizedSql(text, parameters)

    def _new_value(self, column: str, value: Any, names: Iterator[str]) -> tuple[str, dict[str, Any]]:
        """Return the expression of a new value, and its parameters: an engine would read a dictionary as a struct."""
        field = next((each for each in self.schema.fields if each.name.casefold() == column.casefold()), None)
        pairs = list(value.items() if isinstance(value, dict) else value) if isinstance(value, dict | list) else []
        is_map = field is not None and field.type.name == "map" and pairs
        if not is_map or not all(isinstance(each, list | tuple) and len(each) == 2 for each in pairs):
            name = next(names)
            return f":{name}", {name: value}
        if self.dialect == "spark":  # it takes no list with None as a parameter
            own = {next(names): part for pair in pairs for part in pair}
            return f"map({', '.join(f':{each}' for each in own)})", own
        keys, items = next(names), next(names)
        return f"map(:{keys}, :{items})", {keys: [each[0] for each in pairs], items: [each[1] for each in pairs]}

    def upsert(self, on: Sequence[str], columns: Sequence[str]) -> str:
        """Return the ``MERGE`` that updates the rows equal to a new row on some columns, and inserts the others.

        Parameters
        ----------
        on
            The columns on which rows are equal.
        columns
            The columns of the new rows.
        """
        match, source = self.equal(on, columns), self.quoted(SOURCE_NAME)
        keys, given = [self._own(name) for name in on], {self._own(name): name for name in columns}
        changed = [name for name in given if name not in keys]
        sets = ", ".join(f"{self.quoted(name)} = {source}.{self.quoted(given[name])}" for name in changed)
        names = ", ".join(map(self.quoted, given))
        values = ", ".join(f"{source}.{self.quoted(name)}" for name in given.values())
        matched = f"UPDATE SET {sets}" if changed else "DO NOTHING"
        merge = f"{self.merge(match)} WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN"
        return f"{merge} INSERT ({names}) VALUES ({values})"  # noqa: S608 - quoted names

    def equal(self, on: Sequence[str], columns: Sequence[str]) -> str:
        """Return the condition that a row of the table and a new row are equal on some columns.

        Parameters
        ----------
        on, columns
            As in `upsert`; new rows may have columns that the table lacks.

        Raises
        ------
        InvalidInput, NotFound
            When the new rows, or the table, lack one of the columns.
        """
        source, target = self.quoted(SOURCE_NAME), self.quoted(TARGET_NAME)
        given = {name.casefold(): name for name in columns}
        keys = [self._own(name) for name in on]
        missing = next((key for key in keys if key.casefold() not in given), None)
        if missing is not None:
            left = [key for key in keys if key.casefold() in given]
            others = Action(f"--on {','.join(left) or 'a,b'}", f"on={left or ['a', 'b']!r}")
            hint = ("add the column, or name the columns by which rows match: ", others)
            raise InvalidInput(f"the rows have no column {missing!r}, by which they are matched", hint=hint)
        pairs = ((self.quoted(key), self.quoted(given[key.casefold()])) for key in keys)
        return " AND ".join(f"{target}.{own} = {source}.{new}" for own, new in pairs)

    def merge(self, match: str) -> str:
        """Return the beginning of a ``MERGE`` of the new rows, up to its clauses."""
        target = f"{self.quoted(self.table)} AS {self.quoted(TARGET_NAME)}"
        return f"MERGE INTO {target} USING {self.quoted(NEW_ROWS)} AS {self.quoted(SOURCE_NAME)} ON {match}"

    def overwrite(self, where: str | None) -> str:
        """Return ``INSERT`` that replaces the rows that meet a condition, or all, by the new rows."""
        rows = f"BY NAME SELECT * FROM {self.quoted(NEW_ROWS)}"  # noqa: S608 - a fixed name
        if where is None:
            return f"INSERT OVERWRITE {self.quoted(self.table)} {rows}"
        condition = self.expression(where, "a condition")
        return f"INSERT INTO {self.quoted(self.table)} REPLACE WHERE ({condition}) {rows}"

    def quoted(self, name: str) -> str:
        """Return a name in quotes."""
        return quote_name(name, dialect=self.dialect)

    def _own(self, name: str) -> str:
        found = next((each for each in self.schema.names if each.casefold() == name.casefold()), None)
        if found is None:
            raise NotFound.of("column", name, self.schema.names, where=f" of table {self.table!r}")
        return found

    def _where(self, where: str | None) -> str:
        return "" if where is None else f" WHERE {self.expression(where, 'a condition')}"


def free_names(prefix: str, taken: Collection[str]) -> Iterator[str]:
    """Yield names of parameters that the user's own do not have."""
    return (name for name in (f"{prefix}_{number}" for number in count()) if name not in taken)


def in_regions(regions: Sequence[Region], schema: Schema, dialect: Dialect) -> ParameterizedSql:
    """Return the condition that a row is in one of some regions."""
    parameters: dict[str, Any] = {}

    def literal(_: object, value: Any) -> str:
        name = f"bound_{len(parameters)}"
        parameters[name] = value
        return f":{name}"

    tests = []
    for region in regions:
        met = region.comparisons(schema, lambda key: _Column(quote_name(key.name, dialect=dialect)), literal)
        tests.append(" AND ".join(met) or "TRUE")
    return ParameterizedSql(" OR ".join(f"({test})" for test in tests) or "FALSE", parameters)


@dataclass(frozen=True, slots=True)
class _Column:
    """A quoted name whose comparisons are text."""

    name: str

    def __ge__(self, other: str) -> str:
        return f"{self.name} >= {other}"

    def __lt__(self, other: str) -> str:
        return f"{self.name} < {other}"
