"""Tables of Delta and Iceberg that a statement reads where they are: ``FROM delta('path', 12)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import FieldType
from sleeper_nb.read.predicate import ALWAYS_TRUE, Predicate
from sleeper_nb.sql.references import TableReference
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, unquote
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.storage.local_files import absolute, check_no_system, no_local_files

if TYPE_CHECKING:
    from sleeper_nb.load.lake_tables import LakePart, LakeTable

# What loads is imported in a function: most statements name no such table.


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a table of another format, which may have a name that no field here has; it may be NULL."""

    name: str
    type: FieldType


@dataclass(frozen=True, slots=True)
class LakeAccess:
    """Which tables of other formats a statement may read; those in a bucket by the connection of `home`."""

    home: Storage | None = None
    local_files: bool = True

    def check(self, location: str) -> None:
        """Raise for a local path that SQL may not read, before anything there is opened."""
        place = open_near(location, self.home)
        if not place.local:
            return
        if not self.local_files:
            raise no_local_files(place.root)
        check_no_system(place.root)


ANY_LAKE: Final = LakeAccess()


@dataclass(frozen=True, slots=True, eq=False)
class BoundLake:
    """A table of another format at a version, in the types that a load would give it.

    An answer has only rows that meet the predicate.
    """

    table: LakeTable
    fields: tuple[LakeColumn, ...]
    predicate: Predicate = ALWAYS_TRUE

    @classmethod
    def of(cls, table: LakeTable) -> BoundLake:
        """Return a table that is read whole; `InvalidInput` when a column has no type here, or two have one name."""
        names = [each.name.casefold() for each in table.schema]
        if len(set(names)) < len(names):
            raise InvalidInput(f"two columns of {table.label} have the same name", hint="rename one there")
        try:
            return cls(table, tuple(LakeColumn(each.name, FieldType.from_arrow(each.type)) for each in table.schema))
        except InvalidInput as error:
            raise InvalidInput(f"{table.label}: {error.message}", hint=error.hint_parts) from error

    def __str__(self) -> str:
        return self.table.label

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(each.name for each in self.fields)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the Arrow types of some columns as SQL has them, all when None."""
        return pa.schema([(each.name, each.type.arrow) for each in self._picked(columns)])

    def parts(self) -> Sequence[LakePart]:
        """Return what is read apart of the rows that may meet the predicate."""
        return self.table.parts(self.predicate)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that may meet the predicate."""
        for part in self.parts():
            yield from self.batches_of(part, columns)

    def batches_of(self, part: LakePart, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield those of a part."""
        fields, schema = self._picked(columns), self.schema(columns)
        for batch in self.table.batches(part, schema.names, self.predicate):
            values = zip(batch.columns, fields, strict=True)
            yield pa.RecordBatch.from_arrays([self._cast(each, field) for each, field in values], schema=schema)

    def _picked(self, columns: Sequence[str] | None) -> tuple[LakeColumn, ...]:
        return tuple(each for each in self.fields if columns is None or each.name in columns)

    def _cast(self, values: pa.Array, field: LakeColumn) -> pa.Array:
        from sleeper_nb.load.casts import InexactValueError, exactly

        try:
            return exactly(values, field.type)
        except InexactValueError as error:
            problem = f"{self.table.label}, column {field.name!r}: a value cannot be read: {error}"
            raise InvalidInput(problem, hint="load the table without the column, or cast it there") from error


def lake_of(
    statement: Statement, reference: TableReference, value_of: Callable[[Statement], Any], access: LakeAccess
) -> BoundLake:
    """Return the table that a call in place of a table names; `value_of` computes an argument that is no literal.

    Errors are those of `lake_tables.open_version`; or the arguments are no path and version, or SQL may not read there.
    """
    from sleeper_nb.load.lake_tables import open_version

    called = Statement.of(statement.text[reference.start : reference.end], dialect=statement.dialect)
    arguments = [_value(each, called, value_of) for each in _arguments(called.tokens)]
    path, version = (*arguments, None)[:2] if arguments else (None, None)
    is_version = version is None or (isinstance(version, str | int) and not isinstance(version, bool))
    if not isinstance(path, str) or not path or len(arguments) > 2 or not is_version:
        example = "delta('path', 12)" if reference.name == "delta" else "iceberg('path', 'tag')"
        raise InvalidInput(f"{called.text} names no table", hint=f"write {example}; the version may be left out")
    access.check(absolute(path))
    return BoundLake.of(open_version(reference.name, path, None if version is None else str(version), access.home))


def _arguments(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each argument of a call, which is all of the tokens."""
    at = first = 2
    end = len(tokens) - 1
    while at < end:
        if tokens[at].symbol == ",":
            yield tokens[first:at]
            first = at + 1
        at = skip_brackets(tokens, at) if tokens[at].symbol == "(" else at + 1
    if first < end:
        yield tokens[first:end]


def _value(tokens: Sequence[Token], called: Statement, value_of: Callable[[Statement], Any]) -> Any:
    if len(tokens) == 1 and tokens[0].kind == "string":
        return unquote(tokens[0], dialect=called.dialect)
    if len(tokens) == 1 and tokens[0].text.isdecimal():
        return int(tokens[0].text)
    if not tokens:
        return None
    return value_of(Statement.of(f"SELECT {called.text[tokens[0].start : tokens[-1].end]}", dialect=called.dialect))
