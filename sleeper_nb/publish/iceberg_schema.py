"""A table's schema as an Iceberg schema: field ids by the names of columns in data files, types, and what may widen.

Data files have no field ids: readers find a column through the table's name mapping, by its name in files. Such a name
never means another column later (`sleeper_nb.model.evolution`), so an id that belongs to it can stay for ever. The
mapping lists every column that a live file may have, dropped ones too: where one is missing, readers fail or read NULL.
Sections "Schemas", "Schema evolution" and "Column projection" of the Iceberg specification. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sleeper_nb.model.schema import Field, FieldType, Schema

Path = tuple[str, ...]
"""The name of a column in data files, and of what is inside it: ``("address", "zip")``, ``("tags", "element")``."""

NAME_MAPPING: Final = "schema.name-mapping.default"
_ELEMENT, _KEY, _VALUE = "element", "key", "value"
_NAMES: Final = {
    "tinyint": "int", "smallint": "int", "int": "int", "long": "long", "string": "string", "uuid": "string",
    "bytearray": "binary", "double": "double", "float": "float", "boolean": "boolean", "date": "date",
    "timestamp": "timestamptz", "time": "time",
}  # fmt: skip
_PROMOTIONS: Final = {("int", "long"), ("float", "double")}


@dataclass(frozen=True, slots=True)
class FieldIds:
    """The field id of each column in data files, and of each field inside it."""

    ids: Mapping[Path, int] = field(default_factory=dict)  # in the order in which they were given

    @property
    def last(self) -> int:
        return max(self.ids.values(), default=0)

    def with_schema(self, schema: Schema) -> FieldIds:
        """Return these ids, and the next ones for what a schema has besides."""
        paths = (path for each in schema.fields for path in _paths((each.column,), each.type))
        ids = dict(self.ids)
        for path in (*paths, *((name,) for name in schema.retired)):
            ids.setdefault(path, len(ids) + 1)
        return FieldIds(ids)

    def to_mapping(self) -> str:
        """Return the ids as the JSON of a name mapping."""
        inside: dict[Path, list[Path]] = {}
        for path in self.ids:
            inside.setdefault(path[:-1], []).append(path)

        def entry(path: Path) -> dict[str, Any]:
            own: dict[str, Any] = {"field-id": self.ids[path], "names": [path[-1]]}
            return own | ({"fields": list(map(entry, inside[path]))} if path in inside else {})

        return json.dumps(list(map(entry, inside.get((), ()))), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_mapping(cls, text: str) -> FieldIds:
        def entries(fields: Any, above: Path) -> Iterator[tuple[Path, int]]:
            for each in fields:
                path = (*above, each["names"][0])
                yield path, each["field-id"]
                yield from entries(each.get("fields", ()), path)

        return cls(dict(sorted(entries(json.loads(text), ()), key=lambda each: each[1])))


def _paths(path: Path, kind: FieldType) -> Iterator[Path]:
    yield path
    for name, inner in _inside(kind):
        yield from _paths((*path, name), inner)


def _inside(kind: FieldType) -> Iterable[tuple[str, FieldType]]:
    if kind.name == "list":
        return ((_ELEMENT, kind.arguments[0]),)
    if kind.name == "map":
        return zip((_KEY, _VALUE), kind.arguments, strict=True)
    if kind.name == "struct":
        return ((member.name, member.type) for member in kind.arguments)
    return ()


def type_json(path: Path, kind: FieldType, ids: FieldIds) -> Any:
    """Return a type as Iceberg's JSON; what is inside it may be NULL, as in our data files."""
    if kind.name == "decimal":
        return f"decimal({kind.arguments[0]}, {kind.arguments[1]})"
    inner = [(ids.ids[(*path, name)], name, type_json((*path, name), of, ids)) for name, of in _inside(kind)]
    if kind.name == "list":
        ((number, _, element),) = inner
        return {"type": "list", "element-id": number, "element": element, "element-required": False}
    if kind.name == "map":
        (key_id, _, key), (value_id, _, value) = inner
        return {
            "type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": False,
        }  # fmt: skip
    if kind.name == "struct":
        fields = [{"id": number, "name": name, "required": False, "type": of} for number, name, of in inner]
        return {"type": "struct", "fields": fields}
    return _NAMES[kind.name]


def schema_json(schema: Schema, schema_id: int, ids: FieldIds) -> dict[str, Any]:
    """Return a schema as Iceberg's JSON.

    Only keys are required: a file may have NULL in a row that was deleted before its column became NOT NULL, and where
    a required column has a NULL, readers count wrong.
    """

    def entry(each: Field) -> dict[str, Any]:
        kind = type_json((each.column,), each.type, ids)
        required = each.name in schema.sort_order
        own = {"id": ids.ids[(each.column,)], "name": each.name, "required": required, "type": kind}
        return own | ({"doc": each.comment} if each.comment else {})

    return {"type": "struct", "schema-id": schema_id, "fields": list(map(entry, schema.fields))}


def sort_fields(schema: Schema, ids: FieldIds) -> list[dict[str, Any]]:
    """Return the fields of the order in which data files have their rows, as Iceberg's JSON."""
    how = {"transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    return [{**how, "source-id": ids.ids[(name,)]} for name in schema.sort_order]


def promotes(old: Any, new: Any) -> bool:
    """Return whether Iceberg readers read a type as another, both as JSON."""
    if isinstance(old, str) and isinstance(new, str):
        return old == new or (old, new) in _PROMOTIONS or _is_longer_decimal(old, new)
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        return False
    if old["type"] == "list":
        return promotes(old["element"], new["element"])
    if old["type"] == "map":
        return promotes(old["key"], new["key"]) and promotes(old["value"], new["value"])
    return all(promotes(a, b) for _, a, b in _common(old, new))


def unreadable(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """Return the first field with a type that readers cannot read as that of another schema: its name, and both."""
    return next((each for each in _common(old, new) if not promotes(each[1], each[2])), None)


def _common(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    known = {each["id"]: each["type"] for each in old["fields"]}
    for each in new["fields"]:
        if each["id"] in known:
            yield each["name"], known[each["id"]], each["type"]


def _is_longer_decimal(old: str, new: str) -> bool:
    if not old.startswith("decimal(") or not new.startswith("decimal("):
        return False
    (precision, scale), (new_precision, new_scale) = (map(int, each[8:-1].split(",")) for each in (old, new))
    return scale == new_scale and precision <= new_precision
