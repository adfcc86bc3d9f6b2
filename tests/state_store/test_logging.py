"""What the state stores and the network below them log: table, snapshot and level, and never a secret."""

from __future__ import annotations

import logging

import pytest

from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import ConflictError, StorageError
from sleeper_nb.state_store import state_stores
from sleeper_nb.storage.aws import AwsTarget, Judgement, Network
from tests.support.builders import EMBEDDED, TABLE, a_store, ingest, rows_of


@pytest.fixture(autouse=True)
def _all_levels(caplog):
    caplog.set_level(logging.DEBUG, "sleeper_nb")


def logged(caplog, level):
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def lose_commits(monkeypatch, store, count):
    """Let another writer be first, so many times."""
    commit, left = store.catalog.commit, [count]

    def losing(*arguments, **options):
        if left[0]:
            left[0] -= 1
            return False
        return commit(*arguments, **options)

    monkeypatch.setattr(store.catalog, "commit", losing)


@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_commit_and_each_lost_attempt_are_logged_with_the_table(tmp_path, caplog, monkeypatch, kind):
    store = a_store(tmp_path, kind=kind)
    lose_commits(monkeypatch, store, 2)
    ingest(store, rows_of("a", "b"))
    lines = logged(caplog, logging.INFO)
    assert f"table {TABLE} (table): created in {kind}" in lines
    for attempt in (1, 2):
        assert f"table {TABLE}: another writer committed first, attempt {attempt} of 40" in lines
    assert f"table {TABLE}: committed snapshot 2 (ingest): 1 files, 2 rows" in lines


def test_a_commit_that_is_given_up_is_a_warning(store, caplog, monkeypatch):
    lose_commits(monkeypatch, store, 1000)
    with pytest.raises(ConflictError):
        ingest(store, rows_of("a"))
    assert logged(caplog, logging.WARNING) == [f"table {TABLE}: gave up a commit after 40 attempts"]


def test_checkpoints_are_logged_and_one_that_failed_is_a_warning(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(state_stores, "CHECKPOINT_EVERY", 2)
    store = a_store(tmp_path, kind="TransactionLogStateStore")
    write = store.history.materialised

    def failing(*_):
        raise StorageError("the disk failed")

    monkeypatch.setattr(store.history, "materialised", failing)
    for key in "ab":
        ingest(store, rows_of(key))
    monkeypatch.setattr(store.history, "materialised", write)
    ingest(store, rows_of("c"))
    assert logged(caplog, logging.WARNING) == [f"table {TABLE}: no checkpoint at snapshot 3: the disk failed"]
    assert f"table {TABLE}: wrote a checkpoint at snapshot 4" in logged(caplog, logging.INFO)


def test_a_lost_answer_of_the_catalog_is_a_warning(store, caplog, monkeypatch):
    commit = store.catalog.commit

    def losing(*arguments, **options):
        commit(*arguments, **options)
        raise StorageError("the connection broke")

    monkeypatch.setattr(store.catalog, "commit", losing)
    assert ingest(store, rows_of("a")).id == 2
    (line,) = logged(caplog, logging.WARNING)
    lost = f"table {TABLE}: the answer to the commit of snapshot 2 was lost"
    assert line == f"{lost}, but the commit succeeded: the connection broke"


def test_each_retried_request_is_a_warning(caplog):
    failures = [OSError("reset"), OSError("reset")]

    def send():
        if failures:
            raise failures.pop()
        return "answer"

    network = Network(ManualClock())
    judgement = Judgement(5, lost=True, why="no answer: reset")
    assert network.ask("S3 GetObject", send, lambda _: judgement, lambda error, _: str(error)) == "answer"
    assert logged(caplog, logging.WARNING) == [
        f"S3 GetObject: retrying, attempt {attempt} of 5 (no answer: reset)" for attempt in (2, 3)
    ]


def test_s3_logs_no_credentials(caplog, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    from sleeper_nb.storage.s3 import S3Connection

    connection = S3Connection(AwsTarget("eu-west-1", "http://127.0.0.1:9"))
    assert connection.filesystem is connection.filesystem
    assert len(logged(caplog, logging.DEBUG)) == 2
    assert "the-key" not in caplog.text
    assert "the-secret" not in caplog.text
