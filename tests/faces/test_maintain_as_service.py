"""`maintain --once` and `--every`, and `status --json --fail-on`, as cron, Airflow and Kubernetes run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.jobs import ServiceLease

DDL = "city STRING KEY\nfare DOUBLE NULL\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLEEPER_WAREHOUSE", raising=False)
    monkeypatch.delenv("SLEEPER_LOG", raising=False)
    (tmp_path / "trips.ddl").write_text(DDL)
    (tmp_path / "rows.csv").write_text("city,fare\nZagreb,2.5\nAthens,1.5\n")
    return tmp_path


@pytest.fixture
def trips(sleeper):
    assert sleeper("create", "trips", "--schema", "trips.ddl", "--set", "sleeper.table.compaction.files.batch.size=2",
                   "--set", "sleeper.table.compaction.strategy.sizeratio.ratio=1")[0] == 0  # fmt: skip
    for _ in range(2):
        assert sleeper("ingest", "trips", "rows.csv")[0] == 0
    return sleeper


def in_use(folder, length=timedelta(minutes=3)):
    """Give another process the lease of the service."""
    with sl.connect(folder / "warehouse") as session:
        now = datetime.now(UTC)
        lease = ServiceLease("maintain", "another", "process 9 on elsewhere", now, now + length)
        session._components.catalog.take_service(lease, now)


def test_one_round_shows_what_it_did_and_logs_it(trips, folder):
    code, out, err = trips("maintain", "--once")
    assert (code, "merged 2 files into 1" in out) == (0, True)
    assert "INFO sleeper_nb.session.maintenance_service: table trips: compact: merged 2 files into 1" in err
    with sl.connect(folder / "warehouse") as session:
        assert session._components.catalog.service("maintain") is None


def test_the_help_of_the_console_has_a_round_and_a_service(trips, folder):
    text = trips("help", "maintain")[1]
    lines = [
        line.split()[1:]
        for line in text.splitlines()
        if line.startswith(("  sleeper maintain --once", "  sleeper maintain --every"))
    ]
    (once,) = (line for line in lines if "--once" in line)
    (service,) = (line for line in lines if "--every" in line)
    assert trips(*once)[0] == 0
    (folder / "sleeper.prom").mkdir()  # so that the service ends at once
    code, _, err = trips(*service)
    assert (code, "--metrics needs a file" in err) == (1, True)


def test_lines_of_json_alone_are_on_stderr_and_nothing_on_stdout(trips):
    code, out, err = trips("maintain", "--once", "--log-format", "json")
    assert (code, out) == (0, "")
    lines = [json.loads(line) for line in err.splitlines()]
    assert next(line["event"] for line in lines if "event" in line) == "round begins"
    (step,) = (line for line in lines if line.get("event") == "step")
    assert (step["table"], step["step"], step["summary"]) == ("trips", "compact", "merged 2 files into 1")
    assert all(line["time"].endswith("Z") for line in lines)


def test_a_failure_is_exit_code_1_and_another_process_75(trips, folder):
    in_use(folder)
    code, out, _ = trips("maintain", "--once")
    assert (code, "nothing was done: process 9 on elsewhere maintains the instance" in out) == (75, True)
    assert "maintained by process 9 on elsewhere" in trips("status")[1]
    assert trips("maintain")[0] == 0  # a person may, at any time
    in_use(folder, timedelta(microseconds=1))  # the same owner renews it, for so long
    for path in (folder / "warehouse").rglob("*-files.parquet"):
        path.write_bytes(b"damaged")
    code, out, _ = trips("maintain", "--once")
    assert (code, "failed:" in out) == (1, True)
    assert trips("status", "--fail-on", "error")[0] == 4
    assert trips("status", "--fail-on", "warn")[0] == 4
    assert trips("status")[0] == 0


def test_warnings_are_exit_code_3_if_asked_for(trips):
    assert trips("status", "--fail-on", "warn")[0] == 0
    trips("offline", "trips")
    code, out, _ = trips("status", "--json", "--fail-on", "warn")
    assert (code, json.loads(out)["alerts"][0]["level"]) == (3, "warn")
    assert trips("status", "trips", "--json", "--fail-on", "error")[0] == 0
    assert trips("status", "--json")[0] == 0
    assert trips("status", "nothing", "--json")[0] == 1
    code, _, err = trips("status", "--fail-on", "warning")
    assert (code, "--fail-on cannot be 'warning'" in err) == (2, True)


def test_metrics_are_written_whole(trips, folder):
    (folder / "out").mkdir()
    assert trips("maintain", "--once", "--metrics", "out/sleeper.prom")[0] == 0
    text = (folder / "out" / "sleeper.prom").read_text()
    assert 'sleeper_table_rows{instance="default",table="trips"} 4\n' in text
    assert 'sleeper_maintenance_lease_held{instance="default"} 0\n' in text  # it was released
    assert [path.name for path in (folder / "out").iterdir()] == ["sleeper.prom"]


def sample(path, name, **labels):
    """Return the value of a sample; None when the file has none."""
    shown = ",".join(f'{label}="{value}"' for label, value in {"instance": "default", **labels}.items())
    found = [line for line in path.read_text().splitlines() if line.startswith(f"sleeper_{name}{{{shown}}} ")]
    return float(found[0].rpartition(" ")[2]) if found else None


def test_one_round_after_another_counts_on_in_the_same_file(trips, folder):
    path = folder / "sleeper.prom"
    once = ("maintain", "--once", "--metrics", "sleeper.prom")
    assert trips(*once)[0] == 0
    succeeded = sample(path, "maintenance_round_timestamp_seconds", event="succeeded")
    for _ in range(2):
        assert trips("ingest", "trips", "rows.csv")[0] == 0
    for each in (folder / "warehouse").rglob("*-files.parquet"):
        each.write_bytes(b"damaged")
    assert trips(*once)[0] == 1
    assert sample(path, "maintenance_rounds_total") == 2
    assert sample(path, "maintenance_failed_rounds_total") == 1
    assert sample(path, "maintenance_round_timestamp_seconds", event="succeeded") == succeeded > 0
    assert sample(path, "maintenance_round_timestamp_seconds", event="ended") > succeeded
    assert sample(path, "maintenance_steps_total", table="trips", step="compact", outcome="done") == 1
    path.unlink()
    assert trips(*once)[0] == 1
    assert sample(path, "maintenance_round_timestamp_seconds", event="succeeded") == 0
    assert trips("drop", "trips", "--force")[0] == 0
    assert trips(*once)[0] == 0
    assert "trips" not in path.read_text()
    assert sample(path, "maintenance_rounds_total") == 2


def test_one_round_leaves_the_file_to_the_process_that_works(trips, folder):
    in_use(folder)
    path = folder / "sleeper.prom"
    once = ("maintain", "--once", "--metrics", "sleeper.prom")
    assert (trips(*once)[0], path.exists()) == (75, False)
    path.write_text('# HELP sleeper_x Y\nsleeper_maintenance_rounds_total{instance="default"} 7\n')
    before = path.read_bytes()
    assert (trips(*once)[0], path.read_bytes()) == (75, before)


def test_counters_of_another_instance_are_not_taken_over(trips, folder):
    path = folder / "sleeper.prom"
    path.write_text('# HELP sleeper_x Y\nsleeper_maintenance_rounds_total{instance="other"} 7\n')
    assert trips("maintain", "--once", "--metrics", "sleeper.prom")[0] == 0
    assert sample(path, "maintenance_rounds_total") == 1


@pytest.mark.parametrize(("name", "message"), [
    ("out", "--metrics needs a file, and out is none"),
    ("gone/m.prom", "no folder gone for the metrics"),
    ("rows.csv", "rows.csv is not a file of metrics, and is not replaced"),
    ("rows.csv/m.prom", "no folder rows.csv for the metrics"),
    ("x" * 300, "--metrics cannot be"),
])  # fmt: skip
def test_what_cannot_be_a_file_of_metrics_is_refused_before_the_round(trips, folder, name, message):
    (folder / "out").mkdir()
    rows = (folder / "rows.csv").read_bytes()
    code, _, err = trips("maintain", "--once", "--metrics", name)
    assert (code, message in err, "round begins" in err) == (1, True, False)
    assert (folder / "rows.csv").read_bytes() == rows
    assert "compact trips" in trips("status", "trips")[1]


def test_metrics_that_cannot_be_written_are_a_failure(trips, folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "sleeper.prom")

    monkeypatch.setattr("sleeper_nb.session.maintenance_service.whole_file", full)
    code, out, err = trips("maintain", "--once", "--metrics", "sleeper.prom", "--log-format", "json")
    assert (code, out) == (1, "")
    assert [json.loads(line).get("event") for line in err.splitlines()][-2:] == ["round ends", "metrics fail"]


def test_a_step_that_fails_has_its_table_in_the_log(trips, folder):
    for path in (folder / "warehouse").rglob("*-files.parquet"):
        path.write_bytes(b"damaged")
    code, _, err = trips("maintain", "--once", "--log-format", "json")
    lines = [json.loads(line) for line in err.splitlines()]
    failed = [(line["table"], line["step"], line["level"]) for line in lines if line.get("event") == "step fails"]
    assert failed == [("trips", step, "warning") for step in ("split", "compact", "collect-garbage")]
    assert code == 1
    assert "round ends: 1 table, 3 steps failed" in lines[-1]["message"]


@pytest.mark.parametrize(("words", "message"), [
    (("--every", "often"), "'often' is not a duration"),
    (("--every", "1s"), "rounds cannot begin every 1s"),
    (("--every", "0s"), "rounds cannot begin every 0s"),
    (("--every", "10m", "--once"), "--every begins round after round, but --once is one round"),
    (("trips", "--once"), "takes no table 'trips'"),
    (("--dry-run", "--every", "10m"), "takes no --dry-run"),
    (("--metrics", "m.prom"), "are for a service"),
    (("--log-format", "json"), "are for a service"),
    (("--every", "10"), "'10' is not a duration"),
    (("--every", "-5m"), "maintain --every needs a value"),
    (("--every=-5m",), "'-5m' is not a duration"),
    (("--every", "--once"), "maintain --every needs a value"),
    (("--once", "--log-format", "xml"), "--log-format cannot be 'xml'"),
])  # fmt: skip
def test_options_that_make_no_sense_change_nothing(trips, words, message):
    code, out, err = trips("maintain", *words)
    assert (code, out, message in err) == (2, "", True)
    assert "compact trips" in trips("status", "trips")[1]


def test_a_notebook_is_not_kept_from_other_work(cell):
    cell("%load_ext sleeper_nb")
    cell("%sleeper use ./w")
    with pytest.raises(InvalidInput, match=r"--every is for the console\nhint: here, type %sleeper maintain$"):
        cell("%sleeper maintain --every 10m")
    with pytest.raises(InvalidInput, match=r"--once is for the console\nhint: here, type %sleeper maintain$"):
        cell("%sleeper maintain --once")


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sleeper_nb", "--warehouse", str(folder / "warehouse"), "maintain", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_and_releases_the_lease(trips, folder, number):
    first = started(folder, "--every", "10m", "--log-format", "json")
    events = (json.loads(line).get("event") for line in first.stderr)
    assert "round ends" in events
    second = started(folder, "--every", "10m", "--log-format", "json")
    assert "standing by" in (json.loads(line).get("event") for line in second.stderr)
    first.send_signal(number)
    assert (first.wait(60), first.stdout.read()) == (0, "")
    with sl.connect(folder / "warehouse") as session:
        assert session._components.catalog.service("maintain") is None
    second.send_signal(number)
    assert second.wait(60) == 0


@pytest.mark.processes
def test_a_killed_service_leaves_a_lease_that_ends(trips, folder):
    killed = started(folder, "--every", "10m", "--log-format", "json")
    assert "round ends" in (json.loads(line).get("event") for line in killed.stderr)
    killed.kill()
    killed.wait(60)
    assert trips("maintain", "--once")[0] == 75
    with sl.connect(folder / "warehouse") as session:
        catalog = session._components.catalog
        left = catalog.service("maintain")
        after = ServiceLease("maintain", "next", "next", left.until, left.until + timedelta(minutes=3))
        assert catalog.take_service(after, left.until) == after
