"""A search over the tables of a session: by name, row keys, other columns, and comments. No widget is needed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sleeper_nb.display.figure import clip
from sleeper_nb.model.schema import Schema
from sleeper_nb.progress import Watch

if TYPE_CHECKING:
    from sleeper_nb.session import Session

_MOST_REASON = 40  # characters


@dataclass(frozen=True, slots=True)
class TableWords:
    """What is written in a table's schema, in the order in which a search shows it.

    Parameters
    ----------
    texts
        What each text is, and the text: ``("row key", "carrier")``, ``("comment", "late flights")``.
    """

    texts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, schema: Schema) -> TableWords:
        """Return the words of a schema."""
        comments = [schema.comment, *(each.comment for each in schema.fields)]
        return cls(
            (
                *(("row key", each.name) for each in schema.row_keys),
                *(("sort key", each.name) for each in schema.sort_keys),
                *(("column", each.name) for each in schema.values),
                *(("comment", comment) for comment in comments if comment),
            )
        )

    def reason(self, name: str, words: Sequence[str]) -> str | None:
        """Return why a search finds the table, ``row key carrier``: empty where its name does, else None.

        Each word must be in the name or in one of the texts, in any case of its letters.
        """
        missing = [word for word in words if word not in name.casefold()]
        found = [self._with([word]) for word in missing]
        if None in found:
            return None
        one = self._with(missing) if missing else None
        return ", ".join(dict.fromkeys(found)) if one is None else one  # type: ignore[arg-type]

    def _with(self, words: Sequence[str]) -> str | None:
        """Return the first text that has all of some words in it, with what it is."""
        found = (each for each in self.texts if all(word in each[1].casefold() for word in words))
        return next((clip(" ".join(each), _MOST_REASON) for each in found), None)


class TableSearch:
    """Finds tables of a session by what is written in their schemas, which are read once.

    Parameters
    ----------
    session
        Has the tables.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_name: Mapping[str, tuple[Schema, TableWords]] = {}

    def read(self, watch: Watch) -> None:
        """Read the schemas of tables that are new or were altered; one that cannot be read is found by its name only.

        Raises
        ------
        Cancelled
            When the watch was cancelled.
        """
        by_name = {}
        for name, schema in self._session.inspect.schemas():
            watch.check()
            known = self._by_name.get(name)
            by_name[name] = known if known is not None and known[0] is schema else (schema, TableWords.of(schema))
        self._by_name = by_name

    def reason(self, name: str, words: Sequence[str]) -> str | None:
        """Return why a search finds a table; see `TableWords.reason`."""
        words_of_table = self._by_name[name][1] if name in self._by_name else TableWords()
        return words_of_table.reason(name, words)
