"""The log is silent by default, shown by `SLEEPER_LOG`, and left to a program that sets it up itself."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

LOGS_A_WARNING = "import logging, sleeper_nb; logging.getLogger('sleeper_nb.part').warning('lost try %d', 3)"


def error_stream_of(script, level=None):
    """Return what a new process with this `SLEEPER_LOG` writes to its error stream."""
    environment = {name: value for name, value in os.environ.items() if name != "SLEEPER_LOG"}
    if level is not None:
        environment["SLEEPER_LOG"] = level
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return run.stderr


def test_nothing_is_printed_unless_it_is_asked_for():
    assert error_stream_of(LOGS_A_WARNING) == ""
    assert error_stream_of(LOGS_A_WARNING, "") == ""
    assert error_stream_of(LOGS_A_WARNING, "off") == ""
    assert error_stream_of(LOGS_A_WARNING, "error") == ""


@pytest.mark.parametrize("level", ["warning", "INFO", " debug "])
def test_the_environment_variable_shows_the_log(level):
    assert error_stream_of(LOGS_A_WARNING, level).endswith("Z WARNING sleeper_nb.part: lost try 3\n")


def test_a_level_that_a_program_set_before_the_import_stays():
    script = (
        "import logging; logging.getLogger('sleeper_nb').setLevel('DEBUG'); import sleeper_nb, sys;"
        "sys.stderr.write(str(logging.getLogger('sleeper_nb').level))"
    )
    assert error_stream_of(script) == str(logging.DEBUG)


def test_a_record_that_the_root_logger_shows_is_not_repeated():
    configured = f"import logging; logging.basicConfig(level='INFO'); {LOGS_A_WARNING}"
    assert error_stream_of(configured, "info").count("lost try 3") == 1
