"""The statements that the methods of a table for changes of rows run, as text around the user's conditions. Pure.

Values, and the keys of regions, are parameters; names are quoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sleeper_nb.errors import Action, InvalidInput, NotFound
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.sql.tokens import Dialect, quote_name

SOURCE_NAME: Final = "source"
"""The name of the rows of an upsert or merge in its statement."""


@dataclass(frozen=True, slots=True)
class RowStatement:
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

    def delete(self, where: str | None) -> str:
        """Return ``DELETE``; of all rows without a condition."""
        return f"DELETE FROM {self.quoted(self.table)}{self._where(where)}"  # noqa: S608 - the user's own condition

    def update(self, updates: Mapping[str, str], new_values: Mapping[str, Any], where: str | None) -> RowStatement:
        """Return ``UPDATE``; `updates` are expressions of SQL, `new_values` Python values."""
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
        parameters = {f"new_value_{number}": value for number, value in enumerate(new_values.values())}
        named = dict(zip(new_values, (f":{name}" for name in parameters), strict=True))
        assigned = ", ".join(f"{self.quoted(name)} = {value}" for name, value in {**updates, **named}.items())
        text = f"UPDATE {self.quoted(self.table)} SET {assigned}{self._where(where)}"  # noqa: S608 - as in `delete`
        return RowStatement(text, parameters)

    def upsert(self, on: Sequence[str], columns: Sequence[str]) -> str:
        """Return the ``MERGE`` that updates the rows equal to a new row on some columns, and inserts the others.

        Parameters
        ----------
        on
            The columns on which rows are equal.
        columns
            The columns of the new rows.
        """
        keys = [self._own(name) for name in on]
        given = {self._own(name): name for name in columns}
        missing = next((key for key in keys if key not in given), None)
        if missing is not None:
            raise InvalidInput(f"the rows have no column {missing!r}, by which they are matched", hint="add the column")
        changed = [name for name in given if name not in keys]
        source, target = self.quoted(SOURCE_NAME), self.quoted(self.table)
        match = " AND ".join(f"{target}.{self.quoted(key)} = {source}.{self.quoted(given[key])}" for key in keys)
        sets = ", ".join(f"{self.quoted(name)} = {source}.{self.quoted(given[name])}" for name in changed)
        names = ", ".join(map(self.quoted, given))
        values = ", ".join(f"{source}.{self.quoted(name)}" for name in given.values())
        matched = f"UPDATE SET {sets}" if changed else "DO NOTHING"
        merge = f"MERGE INTO {target} USING {source} ON {match} WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN"
        return f"{merge} INSERT ({names}) VALUES ({values})"  # noqa: S608 - quoted names

    def overwrite(self, where: str | None) -> str:
        """Return ``INSERT`` that replaces the rows that meet a condition, or all, by the new rows."""
        rows = f"BY NAME SELECT * FROM {self.quoted(SOURCE_NAME)}"  # noqa: S608 - a name of ours
        if where is None:
            return f"INSERT OVERWRITE {self.quoted(self.table)} {rows}"
        return f"INSERT INTO {self.quoted(self.table)} REPLACE WHERE ({where}) {rows}"

    def quoted(self, name: str) -> str:
        """Return a name in quotes."""
        return quote_name(name, dialect=self.dialect)

    def _own(self, name: str) -> str:
        found = next((each for each in self.schema.names if each.casefold() == name.casefold()), None)
        if found is None:
            raise NotFound.of("column", name, self.schema.names, where=f" of table {self.table!r}")
        return found

    @staticmethod
    def _where(where: str | None) -> str:
        return "" if where is None else f" WHERE {where}"


def in_regions(regions: Sequence[Region], schema: Schema, dialect: Dialect) -> RowStatement:
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
    return RowStatement(" OR ".join(f"({test})" for test in tests) or "FALSE", parameters)


@dataclass(frozen=True, slots=True)
class _Column:
    """A quoted name whose comparisons are text."""

    name: str

    def __ge__(self, other: str) -> str:
        return f"{self.name} >= {other}"

    def __lt__(self, other: str) -> str:
        return f"{self.name} < {other}"
