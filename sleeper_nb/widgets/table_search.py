"""A search over the tables of a session: by name, row keys, other columns, and comments. No widget is needed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleeper_nb.display.figure import clip
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import Watch

if TYPE_CHECKING:
    from sleeper_nb.session import Session

_MOST_REASON = 40  # characters
Texts = tuple[tuple[str, str], ...]
"""What is written in a schema, after what each is: ``("row key", "carrier")``, ``("comment", "late flights")``."""


class TableSearch:
    """Finds tables of a session by their names, and by what is written in their schemas once these are read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts: dict[str, Texts] = {}

    def read(self, watch: Watch) -> None:
        """Read the schemas; a table whose schema cannot be read is found by its name only."""
        found = {}
        for name, schema in self._session.inspect.schemas():
            watch.check()
            found[name] = texts_of(schema)
        self._texts = found

    def reason(self, name: str, words: Sequence[str]) -> str | None:
        """Return why a search finds a table, ``row key carrier``: empty where its name does, else None."""
        return reason_of(name, self._texts.get(name, ()), words)


def texts_of(schema: Schema) -> Texts:
    """Return what is written in a schema, in the order in which a search shows it."""
    comments = [schema.comment, *(each.comment for each in schema.fields)]
    return (
        *(("row key", each.name) for each in schema.row_keys),
        *(("sort key", each.name) for each in schema.sort_keys),
        *(("column", each.name) for each in schema.values),
        *(("comment", comment) for comment in comments if comment),
    )


def reason_of(name: str, texts: Texts, words: Sequence[str]) -> str | None:
    """Return the text that has the words that are not in the name, in any case, or a text for each of them."""

    def having(some: Sequence[str]) -> str | None:
        found = (each for each in texts if all(word in each[1].casefold() for word in some))
        return next((clip(" ".join(each), _MOST_REASON) for each in found), None)

    missing = [word for word in words if word not in name.casefold()]
    if not missing or (one := having(missing)) is None:
        found = [having([word]) for word in missing]
        return None if None in found else ", ".join(dict.fromkeys(filter(None, found)))
    return one
