"""Commands that Spark answers, or fails at, leave nothing of theirs in its JVM."""

from __future__ import annotations

import _thread
import contextlib
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from IPython.utils.capture import capture_output
from py4j.java_gateway import JavaObject

import sleeper_nb as sl

pytestmark = [pytest.mark.spark, pytest.mark.processes]

MADE = ("%sleeper use $session", "%%sleeper create t --splits m\nk STRING KEY\nv INT", "%sleeper ingest t $rows")
ANSWERED = (
    *("%sleeper sql SELECT sum(v) FROM t WHERE v < :least", "%sleeper sql --as spark SELECT * FROM t"),
    *("%sleeper sql --as pandas SELECT k FROM t@2", "%sleeper sql --explain SELECT count(*) FROM t"),
    *("%sleeper sql --dry-run SELECT * FROM t", "%sleeper sql --plot bar SELECT k, v FROM t"),
    *("%sleeper sql SELECT * FROM t$snapshots", "list(session.sql('SELECT k FROM t').batches())"),
    *("%sleeper sql CREATE OR REPLACE TEMP VIEW few AS SELECT * FROM t", "%sleeper sql SELECT * FROM few"),
)
FAILED = (
    *("%sleeper sql SELECT w FROM t", "%sleeper sql SELECT FROM WHERE", "%sleeper sql SELECT * FROM nothing"),
    *("%sleeper sql SELECT raise_error('no') FROM t", "%sleeper sql SELECT :absent"),
)
ENDLESS = "%sleeper sql SELECT sum(hash(id)) AS s FROM range(0, 1000000000000000, 1, 8)"
TIMES = 3
FEW = 10
"""Threads and files come and go; a leak of every command adds more."""
MOST_OBJECTS = 250
"""Of Java, for Python: those of the last answers and errors, about 120, come and go; four of each command would not."""


class InterruptWhenTold:
    """Watches jobs, and interrupts those of which it is told to."""

    told = False

    def update(self, _text, _done=0, total=0):
        if total and self.told:
            self.told = False
            threading.Thread(target=_thread.interrupt_main).start()

    def finish(self, _text=""):
        pass


def held(spark) -> dict[str, int]:
    """Count what a session, its JVM and the way to it hold."""
    gc.collect()
    context, java = spark.sparkContext, spark._jsparkSession
    counts: dict[str, Callable[[], Any]] = {
        "listeners of queries": lambda: len(java.listenerManager().listListeners()),
        "listeners of streams": lambda: len(java.streams().listListeners()),  # which adds the bus of these, once
        "listeners": lambda: context._jsc.sc().listenerBus().listeners().size(),
        "views": lambda: len(spark.catalog.listTables()),
        "kept rows": lambda: context._jsc.getPersistentRDDs().size(),
        "kept plans": lambda: int(not java.sharedState().cacheManager().isEmpty()),
        "jobs": lambda: len(context.statusTracker().getActiveJobsIds()),
        "connections": lambda: sum("Thread-" in thread.toString() for thread in threads_of(context)),
        "threads of Python": threading.active_count,
        "files of Python": lambda: sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "objects for Python": lambda: objects_of(context),
    }
    return {name: count() for name, count in counts.items()}


def threads_of(context):
    threads = context._jvm.java.lang.Thread.getAllStackTraces().keySet().iterator()
    while threads.hasNext():
        yield threads.next()


def objects_of(context) -> int:
    """Count the objects of Java that Python has in hand; what waits to be let go is let go first."""
    client = context._gateway._gateway_client
    with contextlib.suppress(IndexError):
        while True:
            freed, number = client.finalizer_deque.pop()
            freed.garbage_collect_object(number, False)  # noqa: FBT003 - now, not in a second
    return JavaObject("GATEWAY_SERVER", client).getGateway().getBindings().size()


@pytest.fixture
def run(shell, spark_engine, tmp_path):
    watch = InterruptWhenTold()
    with sl.connect(tmp_path / "w", spark=spark_engine.session(), progress=watch) as session:
        shell.push({"session": session, "rows": [{"k": "a", "v": 1}, {"k": "z", "v": 2}], "least": 5})

        def run_all(*cells, interrupt=False):
            for cell in cells:
                watch.told = interrupt
                with capture_output():
                    shell.run_cell(cell)
                shell.displayhook.flush()  # IPython keeps what each cell has shown

        run_all(*MADE)
        yield run_all


def test_commands_of_spark_leave_its_session_as_it_was(run, spark_engine):
    spark = spark_engine.session()
    run(*ANSWERED, *FAILED)
    run(ENDLESS, interrupt=True)
    before = held(spark)
    run(*ANSWERED * TIMES, *FAILED * TIMES)
    run(ENDLESS, interrupt=True)
    after = held(spark)
    for name in ("connections", "threads of Python", "files of Python"):
        assert after.pop(name) <= before.pop(name) + FEW, name
    assert after.pop("objects for Python") < before.pop("objects for Python") + MOST_OBJECTS
    assert after == before
