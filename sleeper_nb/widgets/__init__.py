"""Widgets over sessions and tables; each saves a static picture first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from sleeper_nb.progress import BackgroundJob
    from sleeper_nb.query import QueryResult
    from sleeper_nb.session import Session
    from sleeper_nb.widgets.explorer import Explorer
    from sleeper_nb.widgets.form import CreateForm
    from sleeper_nb.widgets.job_watch import JobWatch
    from sleeper_nb.widgets.pager import Pager
    from sleeper_nb.widgets.timeline_widget import Timeline

__all__ = ["create_form", "explore", "pages", "timeline", "watch"]


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


def create_form(session: Session, name: str | None = None) -> CreateForm:
    """Return a form for a new table, which shows the cell that makes it, and what is wrong; it makes nothing itself.

    Parameters
    ----------
    session
        Where the table is to be.
    name
        What it is to be called.

    Returns
    -------
    As of `explore`. Its ``draft`` can be read, set and observed; ``cell`` is the cell, ``problems`` what is wrong.

    Raises
    ------
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from IPython import get_ipython

        from sleeper_nb.widgets.form import CreateForm
    shell = get_ipython()
    if not hasattr(shell, "kernel"):
        return CreateForm(session, name)
    return CreateForm(session, name, shell.set_next_input, partial(_after_next_cell, shell.events))


def pages(result: QueryResult, rows: int = 20) -> Pager:
    """Return a widget that goes through a query's answer a page at a time; what nobody turns to is not fetched.

    Parameters
    ----------
    result
        Of `Session.sql`; it is read by the widget alone until that is closed.
    rows
        How many a page has, up to 1,000.

    Returns
    -------
    As of `explore`; the static picture is the first page. Its ``first`` and ``rows`` can be read, set and observed;
    ``page`` is what it shows.

    Raises
    ------
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.pager import Pager
    from sleeper_nb.widgets.pager_model import PagesModel

    return Pager(PagesModel(result), rows)


def watch(
    session: Session,
    table: str | None = None,
    work: BackgroundJob[Any] | None = None,
    since: datetime | None = None,
) -> JobWatch:
    """Return a widget that follows jobs while it is displayed, and stops them where this session does the work.

    Parameters
    ----------
    session
        Whose tables.
    table
        The table; all when None.
    work
        A handle of work in the background, as ``table.compact(background=True)`` returns it; followed until it ends.
        None follows whatever runs until nothing does.
    since
        Jobs that were made from this moment on are shown also when they have ended; now, when None.

    Returns
    -------
    As of `explore`; the static picture becomes that of the end, once there is one. Its ``seen`` is what was seen last,
    and ``work`` the handle.

    Raises
    ------
    NotFound
        When there is no such table.
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.job_watch import JobWatch
    from sleeper_nb.widgets.watch_model import JobsModel

    line = " ".join(filter(None, ("%sleeper jobs", table, "--watch")))
    return JobWatch(JobsModel(session, table, work, since), session.components.clock, line, work)


def _after_next_cell(events: Any, call: Callable[[], None]) -> None:
    """Call something once, when the cell that is run next has ended."""

    def ended(_: Any = None) -> None:
        events.unregister("post_run_cell", ended)
        call()

    events.register("post_run_cell", ended)


@contextmanager
def _named_when_missing() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        from sleeper_nb.errors import EngineError

        raise EngineError(f"{error.name} is not installed", hint="pip install ipywidgets") from error
