"""What each property means, grouped by subject; and the values of properties, with where each was set."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sleeper_nb.errors import Action, NotFound
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
from sleeper_nb.report import Grid, Listing, TableReport

WIDTH = 80
_GROUPS = (
    ("metadata", ("sleeper.table.statestore.",)),
    ("data files", ("sleeper.table.data.", "sleeper.table.parquet.")),
    ("loading", ("sleeper.table.ingest.",)),
    ("partitions", ("sleeper.table.partition.", "sleeper.table.splits.")),
    ("compaction", ("sleeper.table.compaction.",)),
    ("processing of rows", ("sleeper.table.filters", "sleeper.table.iterator.", "sleeper.table.aggregations")),
    ("versions and garbage", ("snapshot.", "savepoint.", "sleeper.table.gc.")),
    ("other engines", ("sleeper.table.iceberg",)),
)
_OTHERS = "definition"
DEFAULTS_NOTE = (
    "An instance sets what its tables have by default: sleeper.default.table.gc.delay.minutes for "
    "sleeper.table.gc.delay.minutes, sleeper.default.table.snapshot.time-retained for snapshot.time-retained."
)


def property_groups() -> Iterator[tuple[str, tuple[Property, ...]]]:
    """Yield the properties of a table grouped by subject, and then those of an instance."""
    remaining: Mapping[str, Property] = dict(PROPERTIES)
    groups = []
    for title, prefixes in _GROUPS:
        groups.append((title, tuple(each for each in remaining.values() if each.name.startswith(prefixes))))
        remaining = {name: each for name, each in remaining.items() if not name.startswith(prefixes)}
    if remaining:
        yield _OTHERS, tuple(remaining.values())
    yield from groups
    yield "instance", tuple(INSTANCE_PROPERTIES.values())


@dataclass(frozen=True, slots=True, repr=False)
class PropertyGuide(TableReport):
    """What properties mean: the type and unit, default and effect of each, grouped by subject."""

    described: tuple[tuple[str, tuple[Property, ...]], ...]

    def grid(self) -> Grid:
        """Return a row for each property."""
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
                for sentence in (each.effect, type_and_default(each)):
                    lines += textwrap.wrap(sentence, WIDTH, initial_indent="      ", subsequent_indent="      ")
        return "\n".join([*lines, "", *textwrap.wrap(DEFAULTS_NOTE, WIDTH)])


def type_and_default(known: Property) -> str:
    return f"Type: {known.kind}. Default: {known.default or 'nothing'}."


def describe_properties(names: Iterable[str] = ()) -> PropertyGuide:
    wanted = set(names)
    if not wanted:
        return PropertyGuide(tuple(property_groups()))
    of_instances = InstanceProperties.defined
    for name in wanted - {*PROPERTIES, *of_instances}:
        raise NotFound.of("property", name, (*PROPERTIES, *of_instances))
    defaults = ("default of tables", tuple(of_instances[name] for name in DEFAULTED))
    described = []
    for title, properties in (*property_groups(), defaults):
        matches = tuple(each for each in properties if each.name in wanted)
        if matches:
            described.append((title, matches))
    return PropertyGuide(tuple(described))


# List properties: their values, and where each was set.

_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A property: its effective value and its default as text, and where the value was set."""

    name: str
    value: str
    default: str
    origin: Origin


def table_values(properties: TableProperties, names: Iterable[str] = ()) -> tuple[PropertyValue, ...]:
    """Return the values of the named properties of a table; of all when none is named.

    `NotFound` when there is no such property; the hint names the nearest.
    """
    wanted = tuple(dict.fromkeys(names)) or tuple(properties.defined)
    for name in wanted:
        if name not in properties.defined:
            raise NotFound.of("property", name, properties.defined)
    known = properties.defined
    return tuple(PropertyValue(n, properties.text(n), known[n].default, properties.origin(n)) for n in wanted)


def instance_values(properties: InstanceProperties, names: Iterable[str] = ()) -> tuple[PropertyValue, ...]:
    """Return the values of the named properties of an instance; errors as of `table_values`.

    When none is named: its own properties, and the defaults that it sets for its tables.
    """
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        check_instance_property(name)
    if not wanted:
        wanted = (*INSTANCE_PROPERTIES, *(name for name in DEFAULTED if name in properties.texts))
    values = []
    for name in wanted:
        origin: Origin = "instance" if name in properties.texts else "default"
        values.append(PropertyValue(name, properties.text(name), properties.defined[name].default, origin))
    return tuple(values)


def check_instance_property(name: str) -> None:
    """Raise `NotFound` unless instances have the property; the hint says so when it is a table's."""
    if name in PROPERTIES:
        default = default_name(name)
        of_all = f"; {default} sets the default of all tables" if default in DEFAULTED else ""
        of_table = Action(f"properties T {name}=…", f"table.set_properties({{{name!r}: …}})")
        raise NotFound(f"no property {name!r} of an instance", hint=("it belongs to a table: ", of_table, of_all))
    if name not in InstanceProperties.defined:
        raise NotFound.of("property", name, InstanceProperties.defined)


def list_values(values: tuple[PropertyValue, ...], title: str, footer: str = "") -> Listing[PropertyValue]:
    cells = tuple((each.name, _short(each.value), each.default, each.origin) for each in values)
    return Listing(values, ("property", "value", "default", "set by"), cells, title, footer)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
