"""An interrupt ends a query on DuckDB at once, also one that returns to Python only in hours."""

import _thread
import signal
import sys
import threading
from functools import wraps

import duckdb
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.duckdb import interrupts, relations
from sleeper_nb.engines.duckdb.database import Database
from sleeper_nb.engines.undisturbed import undisturbed

ENDLESS = (
    "SELECT count(*) AS n, 1 AS one FROM range(1000000) a, range(1000000) b, range(1000000) c "
    "WHERE a.range + b.range + c.range < 0"
)


def interrupt():
    threading.Thread(target=_thread.interrupt_main).start()


@pytest.fixture
def run_on():
    """Return how many threads have begun and not ended, also a moment later."""
    before = _thread._count()

    def more(expected):
        wait = threading.Event()
        for _ in range(1000):
            if _thread._count() - before <= expected:
                break
            wait.wait(0.001)
        return _thread._count() - before

    return more


@pytest.mark.parametrize(
    "read",
    [
        lambda result: result.to_arrow(),
        lambda result: result.head(),
        lambda result: next(result.batches()),
        lambda result: result.plot("hist"),
    ],
)
def test_an_interrupt_ends_an_endless_query_and_the_next_is_answered(tmp_path, monkeypatch, read, run_on):
    def interrupted(name):
        real = getattr(relations, name)
        monkeypatch.setattr(relations, name, lambda *given: (interrupt(), real(*given))[1])

    with sl.connect(tmp_path) as session:
        result = session.sql(ENDLESS, engine="duckdb")
        interrupted("to_arrow")
        interrupted("batches")
        with pytest.raises(KeyboardInterrupt) as stop:
            read(result)
        assert not getattr(stop.value, "__notes__", None)
        assert not run_on(0)
        monkeypatch.undo()
        assert session.sql("SELECT 7 AS n", engine="duckdb").to_dict() == {"n": [7]}


def test_a_pivot_that_reads_at_once_is_interrupted_too(tmp_path, monkeypatch, run_on):
    real = relations.query
    monkeypatch.setattr(relations, "query", lambda *given: (interrupt(), real(*given))[1])
    with sl.connect(tmp_path) as session, pytest.raises(KeyboardInterrupt):
        session.sql(f"PIVOT ({ENDLESS}) ON n USING sum(one)", engine="duckdb")
    assert not run_on(0)


def test_what_does_not_stop_is_said_to_run_on(monkeypatch, run_on):
    monkeypatch.setattr(interrupts, "_GIVE_UP_TRIES", 1)
    goes_on, ended = threading.Event(), threading.Event()

    def deaf():
        interrupt()
        goes_on.wait()
        ended.set()

    connection = Database().connect()
    with pytest.raises(KeyboardInterrupt) as stop:
        interrupts.interruptible(connection, deaf)
    assert stop.value.__notes__ == [
        "DuckDB is still running: a function of the statement cannot be stopped. It ends by itself."
    ]
    assert run_on(1) == 1
    assert interrupts.interruptible(connection, lambda: 7) == 7  # another thread takes the next one
    assert run_on(1) == 1
    goes_on.set()
    assert ended.wait(60)


def test_errors_and_other_threads_are_as_ever(tmp_path):
    with sl.connect(tmp_path) as session:
        with pytest.raises(sl.InvalidInput, match="Conversion Error"):
            session.sql("SELECT CAST(range::VARCHAR || 'x' AS INT) AS n FROM range(3)", engine="duckdb").to_arrow()
        found = []
        thread = threading.Thread(target=lambda: found.append(session.sql("SELECT 7 AS n", engine="duckdb").to_dict()))
        thread.start()
        thread.join()
    assert found == [{"n": [7]}]


def interrupted_before(step, action):
    """Return whether an interrupt came before a number of lines of our code and of `threading` had run."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename not in (interrupts.__file__, threading.__file__):
            return None
        lines += event == "line"
        if lines == step:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_interrupt_at_any_step_of_a_query_leaves_the_next_one_alone(run_on):
    connection = Database().connect()

    def query():
        assert interrupts.interruptible(connection, lambda: connection.sql("SELECT 7").fetchall()) == [(7,)]

    step = 1
    while interrupted_before(step, query):
        query()
        step += 1
    assert step > 10
    assert not run_on(0)


@pytest.fixture
def usual_interrupts():
    """Let an interrupt raise KeyboardInterrupt, as in a notebook, wherever the tests run."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.fixture
def calls(monkeypatch, usual_interrupts):
    """Return the names of what DuckDB is asked in the main thread while an interrupt would be raised in it."""
    found = []

    def watched(name, method):
        @wraps(method)
        def call(*values, **named):
            if threading.current_thread() is threading.main_thread() and not is_test():
                found.append((name, signal.getsignal(signal.SIGINT) is signal.default_int_handler))
            return method(*values, **named)

        return call

    def is_test():
        return sys._getframe(2).f_code.co_filename == __file__

    for kind in (duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation):
        for name in dir(kind):
            method = getattr(kind, name)
            if not name.startswith("_") and name not in ("close", "interrupt") and callable(method):
                monkeypatch.setattr(kind, name, watched(name, method))
    return found


def test_no_call_of_duckdb_sees_an_interrupt_of_which_it_would_make_an_error_of_its_own(tmp_path, calls):
    rows = pa.table({"k": range(1000), "v": range(1000)})
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "long"}), split_points=[500])
        table.ingest(rows)
        assert table.scan(where="k + v > 5").to_arrow().num_rows == 997
        table.delete("v = 3")
        table.alter(rename_columns={"v": "w"})
        table.alter(checks={"positive": "w >= 0"})
        assert session.sql("SELECT now(), * FROM t WHERE k + w > 5", engine="duckdb").to_arrow().num_rows == 996
        table.upsert(pa.table({"k": [1], "w": [2]}))
        table.overwrite(pa.table({"k": [1], "w": [4]}), where="k = 1")
        session.sql("UPDATE t SET w = w + 1 WHERE k < 10")
        session.sql("CREATE TABLE u ROW KEYS (k) AS SELECT k, w FROM t")
        session.sql("SELECT k FROM t$snapshots, rows", engine="duckdb", data={"rows": rows}).plot("hist", "k")
        result = session.sql("WITH s AS (SELECT t.k FROM t JOIN u ON t.k = u.w) SELECT * FROM s", engine="duckdb")
        assert (result.names, result.kinds, len(result)) == (("k",), ("BIGINT",), 998)
        table.scan().to_duckdb()
        table.profile()
        with pytest.raises(sl.InvalidInput):
            session.sql("SELECT nothing FROM t", engine="duckdb")
    assert len(calls) > 100
    assert not [name for name, is_seen in calls if is_seen]


def test_an_interrupt_waits_for_the_end_of_a_short_call_and_then_does_what_it_always_does(usual_interrupts):
    connection, came = Database().connect(), []

    @undisturbed()
    def interrupted(statement):
        signal.raise_signal(signal.SIGINT)
        connection.execute(statement)

    with pytest.raises(KeyboardInterrupt):
        interrupted("CREATE TABLE made AS SELECT 7 AS n")
    assert interrupts.fetched(connection, "FROM made") == [(7,)]
    with pytest.raises(KeyboardInterrupt):
        interrupted("FROM nothing")  # its error is of no interest any more
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))  # as asyncio's
    with undisturbed(), undisturbed():
        signal.raise_signal(signal.SIGINT)
        assert not came
    assert came == [signal.SIGINT]
