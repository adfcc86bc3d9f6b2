"""The templates of a new table: every property with its default, and a schema as an example; and reading them. Pure."""

from __future__ import annotations

import re
import textwrap

from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.model.properties_text import comment_of, line_of
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.administration.property_listing import groups, sentence_of

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
        raise InvalidInput(message, hint=error.hint) from error


def _ascii(text: str) -> str:
    """Return a text of the template without the signs that Java's older readers take for others."""
    return text.replace("…", "...").replace("−", "-")
