"""A stop that Spark's tasks ignore: it is said, and they end with the session."""

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
spark, jvm = engine.session(), engine._jvm.process
print("note:", stopped(lambda: session.sql(ENDLESS, engine="spark").to_arrow()))
print("alive:", jvm.poll() is None, threads(spark))
session.close()
print("ended:", jvm.poll() is not None)
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
def test_what_ignores_the_stop_is_said_and_ends_with_the_session(said):
    assert said["note"] == (
        "Still running: 2 tasks of Spark, which did not react to the stop. Later statements wait for their cores. To "
        "end them, close the session."
    )
    assert said["alive"] == "True 2"
    assert said["ended"] == "True"


@pytest.mark.parametrize(
    ("left", "what"), [(2, "2 tasks of Spark"), (1, "a task of Spark"), (0, "the driver of Spark")]
)
def test_what_runs_on_in_a_session_that_was_handed_in_is_said(left, what):
    engine = SparkRuntime(clock=Clock(), progress=Silent())
    with pytest.raises(KeyboardInterrupt) as stop, engine._noted(SimpleNamespace(left=left, is_unresponsive=True)):
        raise KeyboardInterrupt
    (said,) = stop.value.__notes__
    assert said == (
        f"Still running: {what}, which did not react to the stop. Later statements wait for their cores. To end them, "
        "stop that Spark session."
    )
