"""A stop that Spark's tasks ignore: it is said, and a JVM of our own is ended and started anew with what it had."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.progress import Silent

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
# Of the last two tasks, each compiled loop takes minutes between two looks at whether it was killed.
STOPPED = '''
import os, pathlib, sys
import sleeper_nb as sl
from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime

class Stops:
    """Interrupts once the endless stage is under way, which is the second."""
    seen = 0
    def update(self, text, done=0, total=0):
        self.seen += 2 <= done < total
        if self.seen == 10:
            self.seen = 0
            raise KeyboardInterrupt
    def finish(self, text=""):
        pass

ENDLESS = (
    "SELECT count(*) FROM range(0, 100000, 1, 2) a CROSS JOIN range(100000) b CROSS JOIN range(100000) c "
    "WHERE a.id + b.id + c.id < 0"
)

def stopped(run):
    try:
        run()
    except KeyboardInterrupt as stop:
        return " ".join(stop.__notes__)

def threads(spark):
    found = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    return sum("Executor task launch worker for task" in thread.getName() for thread in found)

config = {"spark.master": "local[2]", "spark.driver.memory": "1g",
          "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
          "spark.sleeper.archive": "false"}
session = sl.connect(sys.argv[1], spark_config=config, progress=Stops())
engine = session._spark_engine()
engine._patience = 1
session.create_table("t", sl.Schema({"k": "string"}, {}, {})).ingest([{"k": "a"}])
session.sql("CREATE TEMP VIEW kept AS SELECT k, 7 AS seven FROM t", engine="spark")
session.sql("SET spark.sql.shuffle.partitions = 3", engine="spark")
engine.session().conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
engine.session().range(1).createOrReplaceTempView("by_program")
first = engine._jvm.process
print("note:", stopped(lambda: session.sql(ENDLESS, engine="spark").to_arrow()))
print("ended:", first.poll() is not None, engine.started)
print("answered:", session.sql("SELECT seven FROM kept", engine="spark").to_dict(), threads(engine.session()))
names = ("shuffle.partitions", "session.timeZone")
print("settings:", [engine.session().conf.get(f"spark.sql.{name}") for name in names])

spark, second = engine.session(), engine._jvm.process
given = SparkRuntime(spark, clock=Clock(), progress=Stops(), patience=1)
print("given:", stopped(lambda: given.run(lambda s: s.sql(ENDLESS).collect(), "query")))
print("alive:", second.poll() is None, given.session() is spark, threads(spark))
second.kill()
'''


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stop")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(folder / "w")],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.processes
def test_a_jvm_of_ours_whose_tasks_ignore_the_stop_is_ended_and_it_is_said(said):
    assert said["note"] == (
        "2 tasks of Spark did not react to the stop, so its JVM was ended. The next statement starts another, with the "
        "same settings; data frames of the old one are gone. Gone: Spark's own temporary views by_program."
    )
    assert said["ended"] == "True False"


@pytest.mark.processes
def test_the_next_statement_is_answered_with_the_views_and_settings_of_before(said):
    assert said["answered"] == "{'seven': [7]} 0"
    assert said["settings"] == "['3', 'Asia/Tokyo']"


@pytest.mark.processes
def test_a_session_that_was_handed_in_lives_and_what_runs_on_is_said(said):
    assert said["given"] == (
        "Still running: 2 tasks of Spark, which did not react to the stop. Later statements wait for their cores. To "
        "end them, stop that Spark session."
    )
    assert said["alive"] == "True True 2"


def test_a_jvm_is_not_ended_while_another_job_runs_in_it(monkeypatch):
    engine, ended, other = SparkRuntime(clock=Clock(), progress=Silent()), [], SimpleNamespace()
    engine._jvm, engine._running = SimpleNamespace(alive=True), [other]
    monkeypatch.setattr(engine, "_forget", lambda _seconds: ended.append(True))
    monkeypatch.setattr(engine, "_saved", lambda: ())
    said = engine._after_failed_cancel(SimpleNamespace(left=1))
    assert (
        said == "Still running: a task of Spark, which did not react to the stop. Spark restarts after its other jobs."
    )
    assert not ended
    engine._running.remove(other)
    engine._end_unresponsive_jvm()  # as every next use does
    engine._end_unresponsive_jvm()
    assert ended == [True]
