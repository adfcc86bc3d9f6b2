"""How Spark's JVM is started: quick only for statements over tables that are known to be small. No JVM runs here."""

from __future__ import annotations

import warnings

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.engines.spark.engine import LONG_JOB_BYTES, SparkEngine, jit_for


class NotStartedError(Exception):
    """Stands for the start of a JVM."""


@pytest.fixture
def session(tmp_path, monkeypatch):
    started = []

    def start(_, expected_bytes):
        started.append(jit_for(expected_bytes))
        raise NotStartedError

    monkeypatch.setattr(SparkEngine, "_start", start)
    monkeypatch.setattr("sleeper_nb.engines.spark.engine.active_session", lambda: None)
    with sl.connect(tmp_path, clock=ManualClock()) as opened:
        opened.create_table("t", sl.Schema({"id": "long"}, {})).ingest([{"id": 1}])
        opened.started = started
        yield opened


@pytest.mark.parametrize(
    ("statement", "jit"),
    [
        ("SELECT * FROM t", "quick"),
        ("SELECT count(*) FROM t", "quick"),
        ("SELECT a.id FROM t a JOIN t VERSION AS OF 1 b ON a.id = b.id", "quick"),
        ("SELECT sum(id) FROM range(1000000000)", "full"),
        ("SELECT 1", "full"),
        ("SELECT t.id FROM t, range(1000000000)", "full"),
        ("SELECT t.id FROM t CROSS JOIN t b", "full"),
        ("SELECT explode(sequence(1, 1000000000)) FROM t", "full"),
        ("SELECT t.id FROM t JOIN parquet.`big.parquet` USING (id)", "full"),
    ],
)
def test_only_a_statement_that_is_known_to_be_small_starts_it_quick(session, statement, jit):
    with pytest.raises(NotStartedError):
        session.sql(statement, engine="spark")
    assert session.started == [jit]


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.spark_session,
        lambda session: session.table("t").scan().to_spark(),
        lambda session: session.sql("SELECT * FROM t", engine="duckdb").to_spark(),
    ],
    ids=["spark_session", "scan", "result"],
)
def test_what_is_handed_out_has_the_full_compiler(session, use):
    with pytest.raises(NotStartedError):
        use(session)
    assert session.started == ["full"]


def test_the_size_of_the_first_work_decides():
    sizes = (0, LONG_JOB_BYTES - 1, LONG_JOB_BYTES, None)
    assert [*map(jit_for, sizes)] == [
        "quick",
        "quick",
        "full",
        "full",
    ]


def test_a_quick_one_that_is_handed_out_is_warned_of_once(session):
    engine = session.spark()
    engine._jit = "quick"
    with pytest.warns(UserWarning, match=r"spark\.sleeper\.jit=full"):
        engine.warn_when_quick()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.warn_when_quick()
