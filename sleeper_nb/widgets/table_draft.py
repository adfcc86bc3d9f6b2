"""The model of the form: a draft of a table, its problems and its cell. No widget is needed here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Literal

from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.model.keys import parse_key, typed_split_points
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import SIMPLE_TYPES, Field, Schema, parse_type
from sleeper_nb.model.table_names import check_table_name

if TYPE_CHECKING:
    from sleeper_nb.public_types import CreatePlan

ColumnRole = Literal["row key", "sort key", "value"]
ROLES: tuple[ColumnRole, ...] = ("row key", "sort key", "value")
TYPES = (*SIMPLE_TYPES, "decimal(18,2)", "list<string>", "map<string,string>", "struct<name:string,n:int?>")
"""The types in the list; a cell also takes other decimals, lists, maps and structs."""
_WORDS = {"row key": " KEY", "sort key": " SORT", "value": ""}


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    """A column of the draft; a key is never nullable."""

    name: str = ""
    type: str = "string"
    role: ColumnRole = "value"
    nullable: bool = False

    @property
    def is_nullable(self) -> bool:
        """Whether its values may be null."""
        return self.nullable and self.role == "value"

    @property
    def line(self) -> str:
        """The column in the cell: ``city STRING KEY``."""
        kind = (
            self.type if "struct" in self.type.lower() else self.type.upper()
        )  # the names of a struct's fields keep their case
        return f"{self.name} {kind}{_WORDS[self.role]}{' NULL' * self.is_nullable}"

    def field(self) -> Field:
        """Return the field of the schema; raise when the type is not valid."""
        return Field(self.name, parse_type(self.type), self.is_nullable)


_FIRST = (ColumnDraft("id", "long", "row key"), ColumnDraft("note", "string", nullable=True))


@dataclass(frozen=True, slots=True)
class TableDraft:
    """A draft of a table.

    `splits` are values of the first row key as ``--splits`` takes them, `source` is the data as it is typed after
    ``--from``, "" for an empty table, and `of_data` are the columns as the data has them.
    """

    name: str = "my_table"
    columns: tuple[ColumnDraft, ...] = _FIRST
    splits: str = ""
    source: str = ""
    of_data: tuple[ColumnDraft, ...] = ()

    @classmethod
    def of_plan(cls, plan: CreatePlan, source: str) -> TableDraft:
        """Return the draft of a table with the columns of data; its row key is the best candidate."""
        key = next((each.column.name for each in plan.candidates if each.fits), "")
        columns = tuple(
            ColumnDraft(
                each.name,
                str(each.type or "string"),
                "row key" if each.name == key else "value",
                each.nullable and each.name != key,
            )
            for each in plan.columns
        )
        return cls(plan.table, columns, source=source, of_data=columns)

    @property
    def cell(self) -> str:
        """The cell that creates the table."""
        # after an equals sign, as the first value may be less than zero
        splits = f" --splits={shlex.quote(self.splits.strip())}" if self.splits.strip() else ""
        if self.source:
            return f"%sleeper create {self.name} --from {self.source}{self._of_roles()}{splits}"
        return "\n".join([f"%%sleeper create {self.name}{splits}", *(column.line for column in self.columns)])

    def _of_roles(self) -> str:
        """Return the options that choose the keys, and the types that differ from those of the data."""
        types = {column.name: column.type for column in self.of_data}
        changed = [f"{each.name}={each.type}" for each in self.columns if types.get(each.name) != each.type]
        chosen = {
            "--keys": [each.name for each in self.columns if each.role == "row key"],
            "--sort": [each.name for each in self.columns if each.role == "sort key"],
            "--types": changed,
        }
        return "".join(f" {name} {shlex.quote(','.join(words))}" for name, words in chosen.items() if words)

    def unnamed(self) -> tuple[SleeperError, ...]:
        """Return an error for each column without a name."""
        return tuple(
            InvalidInput(f"column {number} has no name", hint="give the column a name, or remove it")
            for number, column in enumerate(self.columns, 1)
            if not column.name
        )

    def problems(self, others: Iterable[str]) -> tuple[SleeperError, ...]:
        """Return what is wrong by the rules of the cell: columns, keys, split points, the name among those of `others`.

        Columns without a name are left out, see `unnamed`.
        """
        errors: list[SleeperError] = []

        def noted(check: Callable[[], object], where: str = "") -> None:
            try:
                check()
            except SleeperError as error:
                errors.append(InvalidInput(f"{where}{error.message}", hint=error.hint_parts) if where else error)

        for number, column in enumerate(self.columns, 1):
            if column.name:
                noted(column.field, f"column {number}: ")
        if not errors and all(
            column.name for column in self.columns
        ):  # keys and split points are those of whole columns
            noted(self._tree)
        noted(lambda: check_table_name(self.name, others))
        return tuple(errors)

    def schema(self) -> Schema:
        """Return the schema; raise when the columns do not make one."""
        fields = {role: [column.field() for column in self.columns if column.role == role] for role in ROLES}
        return Schema(fields["row key"], fields["sort key"], fields["value"])

    def _tree(self) -> PartitionTree:
        schema = self.schema()
        key = schema.row_keys[0]
        points = [parse_key(key, text, what="split point") for text in typed_split_points(self.splits)]
        return PartitionTree.from_split_points(schema, points, map(str, count()).__next__)
