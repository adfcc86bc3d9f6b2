"""List properties: their values, and where each was set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sleeper_nb.errors import Action, NotFound
from sleeper_nb.model.properties import (
    DEFAULTED,
    INSTANCE_PROPERTIES,
    PROPERTIES,
    InstanceProperties,
    Origin,
    TableProperties,
    default_name,
)
from sleeper_nb.report import Listing

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
