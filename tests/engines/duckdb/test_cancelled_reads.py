"""A query that another thread reads is stopped by `QueryResult.cancel`, and by the cancel of work that runs it."""

from __future__ import annotations

import threading

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import Cancelled, SleeperError
from sleeper_nb.progress import Watch

FOR_HOURS = "SELECT sum(a.range * b.range % 7) FROM range(10_000_000) AS a, range(10_000_000) AS b"


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as session:
        yield session


def read_in_thread(read):
    """Begin to read in another thread; return it, and what it raised."""
    raised = []

    def run():
        try:
            read()
        except SleeperError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


@pytest.mark.parametrize("how", ["to_arrow", "__len__", "head", "batches"])
def test_a_query_that_runs_is_stopped(session, how):
    result = session.sql(FOR_HOURS, engine="duckdb")
    read = (lambda: list(result.batches())) if how == "batches" else getattr(result, how)
    thread, raised = read_in_thread(read)
    thread.join(0.2)  # it probably runs by now; a cancel before that stops it too
    result.cancel()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(raised[0], Cancelled)
    with pytest.raises(Cancelled):
        result.to_arrow()


def test_the_cancel_of_work_stops_its_query(session):
    watch = Watch()
    result, begun = session.sql(FOR_HOURS, engine="duckdb"), threading.Event()

    def read():
        with watch.stopping(result.cancel):
            begun.set()
            result.to_arrow()

    thread, raised = read_in_thread(read)
    assert begun.wait(60)
    watch.cancel()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(raised[0], Cancelled)
    with pytest.raises(Cancelled), watch.stopping(result.cancel):
        raise AssertionError


def test_another_query_of_the_session_goes_on(session):
    result = session.sql(FOR_HOURS, engine="duckdb")
    thread, _ = read_in_thread(result.to_arrow)
    result.cancel()
    assert session.sql("SELECT 42 AS n", engine="duckdb").to_dict() == {"n": [42]}
    thread.join(60)
