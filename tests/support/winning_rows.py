"""Aggregations by a sequence as a plain model in Python, and generated tables for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from sleeper_nb.model.schema import Schema

FLOATS = ("float", "double")
_DECIMALS = st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("0.25")])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-2, 2), "smallint": st.integers(-2, 2), "int": st.integers(-2, 2),
    "long": st.sampled_from([-(2**63), -1, 0, 2**63 - 1]), "decimal(10,2)": _DECIMALS,
    "double": st.sampled_from([-1.5, -0.0, 0.0, 2.5, math.inf, math.nan]),
    "float": st.sampled_from([-1.5, -0.0, 0.0, 2.5, -math.inf, math.nan]),
    "string": st.sampled_from(["", "a", "ab", "é", "\uffff", "\U0001f600"]),
    "bytearray": st.sampled_from([b"", b"\x7f", b"\x80", b"\x80\x00"]), "boolean": st.booleans(),
    "date": st.sampled_from([date(1960, 1, 1), date(2026, 1, 1)]),
    "timestamp": st.sampled_from([datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    "time": st.sampled_from([time(0), time(23, 59, 59, 999999)]),
    "uuid": st.sampled_from(["00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000000"]),
    "list<int>": st.lists(st.none() | st.integers(0, 2), max_size=2),
    "list<double>": st.lists(st.sampled_from([0.0, -0.0, math.nan]), max_size=2),
    "map<string,int>": st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 1), max_size=2).map(
        lambda items: list(items.items())
    ),
    "struct<a:int?,b:string?>": st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 1), "b": st.none() | st.sampled_from("xy")}
    ),
}  # fmt: skip
ORDERED = tuple(kind for kind in VALUES if "<" not in kind)


@dataclass(frozen=True)
class Rules:
    """A table: its aggregations as ``(operation, field, sequence)``, and the column of deletes."""

    schema: Schema
    each: tuple[tuple[str, str, str], ...]
    delete_column: str = ""

    @property
    def aggregations(self) -> str:
        """The text of the property."""
        own = [f"{operation}({field}{',' * bool(seq)}{seq})" for operation, field, seq in self.each]
        return ",".join(own)

    @property
    def sequences(self) -> dict[str, str]:
        """What each sequence keeps: its ``last`` or ``first`` value."""
        kept: dict[str, str] = {}
        for operation, _, sequence in self.each:
            if sequence:
                kept[sequence] = "last" if operation != "first" else kept.get(sequence, "first")
        return kept

    def rows(self) -> st.SearchStrategy[dict[str, Any]]:
        """Return a strategy for rows."""
        fields = {field.name: VALUES[str(field.type)] for field in self.schema.fields if field.name != "k"}
        nullable = {field.name for field in self.schema.fields if field.nullable}
        return st.fixed_dictionaries(
            {"k": st.integers(0, 1)} | {n: st.none() | v if n in nullable else v for n, v in fields.items()}
        )


@st.composite
def rules(draw: st.DrawFn, kinds: Sequence[str] = tuple(VALUES), ordered: Sequence[str] = ORDERED) -> Rules:
    """Draw a table with one or two sequences, some aggregations by them, perhaps a sum, and perhaps deletes."""
    deletes = draw(st.booleans())
    sequences = ["s0"] if deletes else ["s0", "s1"][: draw(st.integers(1, 2))]
    operations = ["last", "last_not_null"] + ([] if deletes else ["first"])
    fields, each = {}, []
    for at in range(draw(st.integers(1, 4))):
        fields[f"v{at}"] = draw(st.sampled_from(kinds)) + draw(st.sampled_from(["?", "?", ""]))
        each.append((draw(st.sampled_from(operations)), f"v{at}", draw(st.sampled_from(sequences))))
    if not deletes and draw(st.booleans()):
        fields["n"] = "int"
        each.append(("sum", "n", ""))
    used = {sequence for _, _, sequence in each if sequence}
    fields |= {name: draw(st.sampled_from(ordered)) + draw(st.sampled_from(["?", ""])) for name in sorted(used)}
    if deletes:
        fields["gone"] = "boolean?"
    names = draw(st.permutations(sorted(fields)))
    schema = Schema({"k": "int"}, {}, {name: fields[name] for name in names})
    return Rules(schema, tuple(each), "gone" if deletes else "")


def order_of(value: Any) -> tuple[Any, ...]:
    """Return what orders values as they are compared: nulls first, NaN last, -0.0 before 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0 if math.isnan(value) else value, math.isnan(value) or math.copysign(1, value))
    if isinstance(value, dict):
        return (1, *(order_of(value[name]) for name in sorted(value)))
    if isinstance(value, list | tuple):
        return (1, *map(order_of, value))
    return (1, value)


def model(rows: Iterable[dict[str, Any]], made: Rules) -> list[dict[str, Any]]:
    """Return the rows that a query gives."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["k"], []).append(row)
    return [found for key in sorted(groups) if (found := _one(groups[key], made)) is not None]


def _one(rows: list[dict[str, Any]], made: Rules) -> dict[str, Any] | None:
    mark = made.delete_column
    each = [*made.each, *((operation, name, name) for name, operation in made.sequences.items())]
    each += [("last", mark, "s0")] if mark else []
    found: dict[str, Any] = {"k": rows[0]["k"]}
    for operation, field, sequence in each:
        if operation == "sum":
            found[field] = sum(row[field] for row in rows)
        elif operation == "last_not_null":
            known = [row for row in rows if row[field] is not None or (mark and row[mark])]
            last = _last(known, sequence, [mark, field] if mark else [field])
            found[field] = None if last is None or (mark and last[mark]) else last[field]
        else:
            together = {name for op, name, by in each if (op, by) == (operation, sequence)}
            names = [name for name in made.schema.names if name in together and name != mark]
            names = [mark, *names] if mark and mark in together else names
            candidates = _least(rows, sequence) if operation == "first" else rows
            winner = _last(candidates, sequence, names)
            assert winner is not None
            found[field] = winner[field]
    return None if mark and found[mark] else {name: found[name] for name in made.schema.names}


def _last(rows: list[dict[str, Any]], sequence: str, names: Sequence[str]) -> dict[str, Any] | None:
    return max(rows, key=lambda row: [order_of(row[name]) for name in (sequence, *names)], default=None)


def _least(rows: list[dict[str, Any]], sequence: str) -> list[dict[str, Any]]:
    known = [order_of(row[sequence]) for row in rows if row[sequence] is not None]
    return [row for row in rows if order_of(row[sequence]) == min(known)] if known else rows


def plain(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return a text for each row, in an order of its own: NaN is not equal to itself, and 0.0 is equal to -0.0."""
    return sorted(repr([(name, _plain(value)) for name, value in sorted(row.items())]) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return sorted(value.items())
    return bytes(value) if isinstance(value, bytearray) else value
