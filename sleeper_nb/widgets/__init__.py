"""Widgets over sessions and tables; each saves a static picture first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sleeper_nb.session import Session
    from sleeper_nb.widgets.explorer import Explorer

__all__ = ["explore"]


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
    ``version`` and ``tab`` can be read, set and observed; ``preview`` is what it shows.

    Raises
    ------
    NotFound
        When there is no such table.
    EngineError
        When ipywidgets is not installed.
    """
    try:
        from sleeper_nb.widgets.explorer import Explorer
    except ModuleNotFoundError as error:
        from sleeper_nb.errors import EngineError

        raise EngineError(f"{error.name} is not installed", hint="pip install ipywidgets") from error
    return Explorer(session, table)
