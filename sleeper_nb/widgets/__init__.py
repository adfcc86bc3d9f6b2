"""Widgets over sessions and tables; each saves a static picture first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sleeper_nb.session import Session
    from sleeper_nb.widgets.explorer import Explorer
    from sleeper_nb.widgets.timeline_widget import Timeline

__all__ = ["explore", "timeline"]


def explore(session: Session, table: str | None = None) -> Explorer:
    """Return a widget that shows the tables of a session at any of their versions; nothing can be changed in it.

    Parameters
    ----------
    session
        Whose tables.
    table
        The one to begin with, at its newest version; the first by name when None.

    Returns
    -------
    What a notebook displays as a static picture, which stays in the saved file, and the live widget. Its ``table``,
    ``version``, ``tab``, ``partition`` and ``statement`` can be read, set and observed; ``preview`` is what it shows.

    Raises
    ------
    NotFound
        When there is no such table.
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.explorer import Explorer
    return Explorer(session, table)


def timeline(session: Session, table: str) -> Timeline:
    """Return a widget that compares two versions of a table; it changes nothing, and writes the line that rolls back.

    Parameters
    ----------
    session
        Whose table.
    table
        Its name.

    Returns
    -------
    As of `explore`. Its ``before`` and ``after`` can be read, set and observed; ``difference`` and ``preview`` are what
    it shows of them, ``rollback_line`` what its button wrote.

    Raises
    ------
    NotFound
        When there is no such table.
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.timeline_widget import Timeline
    return Timeline(session, table)


@contextmanager
def _named_when_missing() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        from sleeper_nb.errors import EngineError

        raise EngineError(f"{error.name} is not installed", hint="pip install ipywidgets") from error
