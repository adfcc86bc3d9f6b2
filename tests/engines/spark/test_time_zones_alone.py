"""Timestamps of conditions where the machine's time zone has a history that Java and Python tell differently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
READ = """
import sys
from datetime import UTC, datetime
import pyarrow as pa
import sleeper_nb as sl

with sl.connect(sys.argv[1]) as session:
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"ts": "timestamp"}))
    for k, year in enumerate((1955, 1975, 1995, 2015)):
        times = pa.array([datetime(year, 7, 15, 12, tzinfo=UTC)], pa.timestamp("us", "UTC"))
        table.ingest(pa.table({"k": pa.array([k], pa.int32()), "ts": times}))
    found = []
    for year in (1955, 1975, 1995, 2015):
        statement = f"SELECT k FROM t WHERE ts = timestamp'{year}-07-15 12:00:00 UTC'"
        found += session.sql(statement, engine="spark").to_arrow()["k"].to_pylist()
    print(found)
"""


def test_no_row_is_lost_where_python_and_java_have_other_rules(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TZ": "WET"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip().endswith("[0, 1, 2, 3]"), done.stdout + done.stderr[-2000:]
