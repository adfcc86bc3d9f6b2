"""Functions that make the widgets: explorer, timeline, form, pager, job watch. Each leaves a picture in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from sleeper_nb.progress import BackgroundJob
    from sleeper_nb.public_types import QueryResult
    from sleeper_nb.session import Session
    from sleeper_nb.widgets.explorer import Explorer
    from sleeper_nb.widgets.form import CreateForm
    from sleeper_nb.widgets.job_watch import JobWatch
    from sleeper_nb.widgets.pager import Pager
    from sleeper_nb.widgets.timeline_widget import Timeline

__all__ = ["create_form", "explore", "pages", "timeline", "watch"]


def explore(session: Session, table: str | None = None) -> Explorer:
    """Return a widget that shows the tables of a session at any of their versions; it is read-only.

    Parameters
    ----------
    session
        The session whose tables are shown.
    table
        The table to begin with, at its newest version; the first by name when None.

    Returns
    -------
    Explorer
        A notebook displays it as a static picture, which stays in the saved file, and as the live widget. Its
        ``table``, ``version``, ``tab``, ``rows``, ``partition`` and ``statement`` can be read, set and observed;
        ``preview`` is what it shows.

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
    """Return a widget that shows what changed between two versions of a table; it can roll back and create savepoints.

    It reads in the background. A rollback and a savepoint show their plan and command first, and are done when their
    button is pressed.

    Parameters
    ----------
    session
        The session that has the table.
    table
        The name of the table.

    Returns
    -------
    Timeline
        Displayed as the explorer is. Its ``before``, ``after``, ``view`` and ``kind`` can be read, set and observed;
        ``change`` and ``difference`` are what it has read of them, and ``wait()`` waits for it. ``rollback_line`` is
        the command of the plan that it shows.

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


def create_form(session: Session, name: str | None = None, data: Any = None, source: str = "") -> CreateForm:
    """Return a form for a new table: it shows any problems, creates the table, and gives the cell that does the same.

    Parameters
    ----------
    session
        The session to create the table in.
    name
        The name of the new table.
    data
        Rows that the table is created from, as `Session.create_table` takes them: the form begins with their columns.
    source
        The data as it is typed after ``--from``: ``$df``, or a path.

    Returns
    -------
    CreateForm
        Displayed as the explorer is. Its ``draft`` can be read, set and observed; ``cell`` is the cell, ``problems``
        what is wrong with it.

    Raises
    ------
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from IPython import get_ipython

        from sleeper_nb.widgets.form import CreateForm
        from sleeper_nb.widgets.table_draft import TableDraft
    draft = TableDraft(name or TableDraft().name)
    if data is not None:
        draft = TableDraft.of_plan(session.admin.plan_table(draft.name, data=data), source)
    shell = get_ipython()
    if not hasattr(shell, "kernel"):
        return CreateForm(session, draft)
    return CreateForm(session, draft, shell.set_next_input, partial(_after_next_cell, shell.events))


def pages(result: QueryResult, rows: int = 20) -> Pager:
    """Return a widget that shows the answer of a query page by page; a page is fetched when it is first shown.

    Parameters
    ----------
    result
        The answer of `Session.sql`. Only the widget reads it until the widget is closed.
    rows
        The number of rows on a page, up to 1,000.

    Returns
    -------
    Pager
        Displayed as the explorer is; the static picture is the first page. Its ``first`` and ``rows`` can be read, set
        and observed; ``page`` is what it shows.

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
    """Return a widget that shows the progress of jobs, and can stop those that this session runs.

    Parameters
    ----------
    session
        The session whose tables are watched.
    table
        The table whose jobs are shown; those of all tables when None.
    work
        A handle of work in the background, as ``table.maintenance.start_compaction`` returns it; watched until
        it ends. None watches all running jobs until none is left.
    since
        Jobs created at or after this moment are shown even when they have ended; when None, those of `work`, or those
        from now on.

    Returns
    -------
    JobWatch
        Displayed as the explorer is; when the jobs end, the static picture becomes that of the end. Its ``seen`` is
        what it read last, and ``work`` the handle.

    Raises
    ------
    NotFound
        When there is no such table.
    EngineError
        When ipywidgets is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.job_watch import JobWatch

    line = " ".join(filter(None, ("%sleeper jobs", table, "--watch")))
    return JobWatch(session.inspect.job_progress(table, work, since), line, work)


def _after_next_cell(events: Any, call: Callable[[], None]) -> None:
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

        raise EngineError(f"{error.name} is not installed", hint=f"pip install {error.name}") from error
