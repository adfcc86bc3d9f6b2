"""What users see of properties: their values and who set them; or what each of them is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sleeper_nb.errors import Action, InvalidInput, NotFound, SleeperError
from sleeper_nb.model.config_text import comment_of, line_of
from sleeper_nb.model.properties import (
    DEFAULTED,
    INSTANCE_PROPERTIES,
    PROPERTIES,
    InstanceProperties,
    Origin,
    Property,
    TableProperties,
    default_name,
)
from sleeper_nb.model.schema import Schema
from sleeper_nb.report import Grid, Listing, Report

WIDTH = 80
_MOST_SHOWN = 60
_GROUPS = (
    ("metadata", ("sleeper.table.statestore.",)),
    ("data files", ("sleeper.table.data.", "sleeper.table.parquet.")),
    ("loading", ("sleeper.table.ingest.",)),
    ("partitions", ("sleeper.table.partition.", "sleeper.table.splits.")),
    ("compaction", ("sleeper.table.compaction.",)),
    ("processing of rows", ("sleeper.table.filters", "sleeper.table.iterator.", "sleeper.table.aggregations")),
    ("versions and garbage", ("snapshot.", "savepoint.", "sleeper.table.gc.")),
)
_OTHERS = "definition"


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A property, the text of the value that counts, its default, and who set the value."""

    name: str
    value: str
    default: str
    origin: Origin


def values_of(properties: TableProperties, names: Iterable[str] = ()) -> tuple[PropertyValue, ...]:
    """Return the values of some properties of a table; of all when none is named.

    Raises
    ------
    NotFound
        When there is no such property; the nearest is named.
    """
    wanted = tuple(dict.fromkeys(names)) or tuple(properties.defined)
    for name in wanted:
        if name not in properties.defined:
            raise NotFound.of("property", name, properties.defined)
    known = properties.defined
    return tuple(PropertyValue(n, properties.text(n), known[n].default, properties.origin(n)) for n in wanted)


def instance_values(properties: InstanceProperties, names: Iterable[str] = ()) -> tuple[PropertyValue, ...]:
    """Return the values of some properties of an instance.

    When none is named, of its own, and of the defaults that it sets for its tables. Errors are those of `values_of`.
    """
    named = tuple(dict.fromkeys(names))
    for name in named:
        check_of_instance(name)
    named = named or (*INSTANCE_PROPERTIES, *(name for name in DEFAULTED if name in properties.texts))
    return tuple(
        PropertyValue(name, properties.text(name), properties.defined[name].default,
                      "instance" if name in properties.texts else "default")
        for name in named
    )  # fmt: skip


def check_of_instance(name: str) -> None:
    """Raise `NotFound` unless an instance has a property; of one that only tables have it says so."""
    if name in PROPERTIES:
        default = default_name(name)
        of_all = f"; {default} is the default of all tables" if default in DEFAULTED else ""
        of_table = Action(f"properties T {name}=…", f"table.set_properties({{{name!r}: …}})")
        raise NotFound(f"no property {name!r} of an instance", hint=("it belongs to a table: ", of_table, of_all))
    if name not in InstanceProperties.defined:
        raise NotFound.of("property", name, InstanceProperties.defined)


def listing(values: tuple[PropertyValue, ...], title: str, footer: str = "") -> Listing[PropertyValue]:
    """Return values as a table."""
    cells = tuple((each.name, _short(each.value), each.default, each.origin) for each in values)
    return Listing(values, ("property", "value", "default", "set by"), cells, title, footer)


def _short(text: str) -> str:
    """Return a text that leaves room beside it; the values themselves are whole."""
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def groups() -> Iterator[tuple[str, tuple[Property, ...]]]:
    """Yield the properties of a table by what they are about, and those of an instance."""
    left: Mapping[str, Property] = dict(PROPERTIES)
    found = []
    for title, prefixes in _GROUPS:
        found.append((title, tuple(each for each in left.values() if each.name.startswith(prefixes))))
        left = {name: each for name, each in left.items() if not name.startswith(prefixes)}
    if left:
        yield _OTHERS, tuple(left.values())
    yield from found
    yield "instance", tuple(INSTANCE_PROPERTIES.values())


@dataclass(frozen=True, slots=True, repr=False)
class PropertyGuide(Report):
    """What each property is: its type and unit, its default and its effect, by what it is about."""

    described: tuple[tuple[str, tuple[Property, ...]], ...]

    def grid(self) -> Grid:
        """Return one row a property."""
        rows = tuple(
            (title, each.name, each.kind, each.default, each.effect)
            for title, known in self.described
            for each in known
        )
        return Grid(("about", "property", "type", "default", "effect"), rows, footer=DEFAULTS_NOTE)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of each property by its name."""
        return {
            each.name: {"about": title, "type": each.kind, "default": each.default, "effect": each.effect}
            for title, known in self.described
            for each in known
        }

    def __repr__(self) -> str:
        lines = []
        for title, known in self.described:
            lines.append(title)
            for each in known:
                lines.append(f"  {each.name}")
                for said in (each.effect, sentence_of(each)):
                    lines += textwrap.wrap(said, WIDTH, initial_indent="      ", subsequent_indent="      ")
        return "\n".join([*lines, "", *textwrap.wrap(DEFAULTS_NOTE, WIDTH)])


DEFAULTS_NOTE = (
    "An instance sets what its tables have by default: sleeper.default.table.gc.delay.minutes for "
    "sleeper.table.gc.delay.minutes, sleeper.default.table.snapshot.time-retained for snapshot.time-retained."
)


def sentence_of(known: Property) -> str:
    """Return the type and the default of a property as words."""
    return f"Type: {known.kind}. Default: {known.default or 'nothing'}."


def guide(names: Iterable[str] = ()) -> PropertyGuide:
    """Return what properties are; all of them when none is named."""
    wanted = set(names)
    if not wanted:
        return PropertyGuide(tuple(groups()))
    of_instances = InstanceProperties.defined
    for name in wanted - {*PROPERTIES, *of_instances}:
        raise NotFound.of("property", name, (*PROPERTIES, *of_instances))
    defaults = ("default of tables", tuple(of_instances[name] for name in DEFAULTED))
    parts = ((title, tuple(each for each in known if each.name in wanted)) for title, known in (*groups(), defaults))
    return PropertyGuide(tuple(part for part in parts if part[1]))


# The templates of a new table: every property with its default, and a schema as an example; and reading them. Pure.

FOLDER = "templates"
TABLE_PROPERTIES = "tableproperties.template"
SCHEMA = "schema.template"
_WIDTH = 100
_HEAD = """The properties of a table that is yet to be made, for: sleeper add-table INSTANCE-ID TABLE-NAME
Each is commented out, with its default. Take away the # of a line to set it, and change its value.
What is not set has the value that the instance sets (sleeper.default.table.…), or the default.
"""
_EXAMPLE = Schema({"key": "string"}, {"timestamp": "long"}, {"value": "string?"})
_QUOTED = re.compile(r"'([^']+)'")


def table_properties_template() -> str:
    """Return a file of properties that sets nothing, with every property of a table in it."""
    parts = [comment_of(_ascii(_HEAD))]
    for title, known in groups():
        if title == "instance":
            continue
        parts.append(comment_of(f"\n== {title} =="))
        for each in known:
            said = textwrap.wrap(_ascii(f"{each.effect}. {sentence_of(each)}"), _WIDTH)
            parts.append("\n" + comment_of("\n".join(said)) + f"# {line_of(each.name, each.default)}\n")
    return "".join(parts)


def schema_template() -> str:
    """Return the JSON of a schema as an example: one row key, one sort key and one value."""
    return _EXAMPLE.to_json() + "\n"


def read_schema(text: str, source: str) -> Schema:
    """Return the schema that a file holds: Sleeper's JSON, or lines as `Schema.from_ddl` takes them.

    Raises
    ------
    InvalidInput
        Naming the source, and the line where it can be told.
    """
    is_json = text.lstrip().startswith("{")
    try:
        return Schema.from_json(text) if is_json else Schema.from_ddl(text)
    except SleeperError as error:
        message = f"{source}: {error.message}"
        word = _QUOTED.search(error.message)
        if is_json and word and "line " not in error.message:
            lines = [number for number, line in enumerate(text.splitlines(), 1) if f'"{word[1]}"' in line]
            message = f"line {lines[-1]} of {message}" if lines else message
        raise InvalidInput(message, hint=error.hint_parts) from error


def _ascii(text: str) -> str:
    """Return a text of the template without the signs that Java's older readers take for others."""
    return text.replace("…", "...").replace("−", "-")
