"""Templates for a new table: a properties file with every default, and an example schema. Pure."""

from __future__ import annotations

import textwrap

from sleeper_nb.model.config_text import comment_of, line_of
from sleeper_nb.model.property_guide import property_groups, type_and_default
from sleeper_nb.model.schema import Schema

FOLDER = "templates"
TABLE_PROPERTIES = "tableproperties.template"
SCHEMA = "schema.template"
_WIDTH = 100
_HEAD = """Properties of a new table, for: sleeper add-table INSTANCE-ID TABLE-NAME
Each property is commented out and shows its default. To set one, remove the # and change the value.
A property that is not set has the value that the instance sets (sleeper.default.table.…), or the default.
"""
_EXAMPLE = Schema({"key": "string"}, {"timestamp": "long"}, {"value": "string?"})


def table_properties_template() -> str:
    """Return the text of a properties file that names every property of a table and sets none."""
    parts = [comment_of(_ascii(_HEAD))]
    for title, properties in property_groups():
        if title == "instance":
            continue
        parts.append(comment_of(f"\n== {title} =="))
        for each in properties:
            description = textwrap.wrap(_ascii(f"{each.effect}. {type_and_default(each)}"), _WIDTH)
            parts.append("\n" + comment_of("\n".join(description)) + f"# {line_of(each.name, each.default)}\n")
    return "".join(parts)


def schema_template() -> str:
    """Return the JSON of an example schema: one row key, one sort key and one value column."""
    return _EXAMPLE.to_json() + "\n"


def _ascii(text: str) -> str:
    """Return a text in ASCII: Java before version 9 reads properties files as Latin-1."""
    return text.replace("…", "...").replace("−", "-")
