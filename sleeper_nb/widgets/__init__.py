"""Functions that make the widgets: explorer, answers, form, job watch. Each leaves a picture in the file."""

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
    from sleeper_nb.widgets.result_pages import ResultPages

__all__ = ["create_form", "explore", "pages", "timeline", "watch"]


def explore(
    session: Session, table: str | None = None, version: int | str | None = None, *, only: bool = False
) -> Explorer:
    """Return a widget that shows the tables of a session at any of their versions.

    Its page can filter and compare rows and run SQL. A rollback and a savepoint show their plan and command first, and
    are done when their button is pressed; nothing else is changed.

    Parameters
    ----------
    session
        The session whose tables are shown.
    table, version
        The table and the version to begin with: the first table by name, and its newest version, when None.
    only
        Whether the page offers no other table.

    Returns
    -------
    Explorer
        A notebook displays it as a static picture, which stays in the saved file, and as the live widget. Its
        ``table``, ``version``, ``before``, ``tab``, ``filters`` and ``statement`` can be read and set, in step with the
        page; ``rows()`` returns the rows that the filters leave, and ``where`` is their condition.

    Raises
    ------
    NotFound
        When there is no such table or version.
    EngineError
        When anywidget is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.explorer import Explorer
    return Explorer(session, table, version, only=only)


def timeline(session: Session, table: str) -> Explorer:
    """Return the widget of `explore` for one table, opened on what changed between its last two versions.

    Parameters
    ----------
    session
        The session that has the table.
    table
        The name of the table.

    Raises
    ------
    NotFound
        When there is no such table.
    EngineError
        When anywidget is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.explorer import Explorer
    return Explorer(session, table, tab="changes", only=True)


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


def pages(result: QueryResult, statement: str = "") -> ResultPages:
    """Return a widget that shows the rows of an answer in a grid, and charts of them.

    Rows are fetched when they come into sight.

    Parameters
    ----------
    result
        The answer of `Session.sql`. Only the widget reads it until the widget is closed.
    statement
        The statement, for the lines that the page shows.

    Returns
    -------
    ResultPages
        Displayed as the explorer is; the static picture has the first rows.

    Raises
    ------
    EngineError
        When anywidget is not installed.
    """
    with _named_when_missing():
        from sleeper_nb.widgets.result_pages import ResultPages
    return ResultPages(result, statement)


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
