"""Turns: one process at a time, but nobody waits for one that has stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sleeper_nb.catalog.sqlite_file import LONGEST_WAIT, CommitLocks
from sleeper_nb.clock import ManualClock

OTHER = """
import sys
from pathlib import Path
from sleeper_nb.catalog.sqlite_file import CommitLocks
from sleeper_nb.clock import ManualClock
clock = ManualClock()
with CommitLocks(Path(sys.argv[1])).hold("t", clock):
    print("waited" if clock.slept else "mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path):
    """A process whose turn it is until its input ends."""
    command = [sys.executable, "-c", OTHER, str(tmp_path / "turns")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        yield process


def waited(path: Path, table_id: str) -> float:
    clock, turns = ManualClock(), CommitLocks(path)
    with turns.hold(table_id, clock):
        pass
    turns.close()
    return sum(clock.slept)


@pytest.mark.usefixtures("other")
def test_a_turn_is_waited_for_but_not_for_ever(tmp_path: Path):
    assert waited(tmp_path / "turns", "t") >= LONGEST_WAIT.total_seconds()


@pytest.mark.usefixtures("other")
def test_tables_have_turns_of_their_own(tmp_path: Path):
    assert waited(tmp_path / "turns", "u") == 0


def test_a_turn_ends_with_its_process(tmp_path: Path, other: subprocess.Popen):
    other.kill()
    other.wait()
    assert waited(tmp_path / "turns", "t") == 0


def test_an_error_ends_the_turn(tmp_path: Path):
    turns, clock = CommitLocks(tmp_path / "turns"), ManualClock()
    with pytest.raises(ZeroDivisionError), turns.hold("t", clock):
        raise ZeroDivisionError
    script = OTHER.replace("sys.stdin.read()", "")
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path / "turns")], capture_output=True, check=True)
    assert run.stdout == b"mine\n"


def test_where_no_file_can_be_made_nobody_waits(tmp_path: Path):
    assert waited(tmp_path / "no folder" / "turns", "t") == 0
