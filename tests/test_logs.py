"""The log is silent by default, shown by `SLEEPER_LOG` and `show_log`, and left to a program that sets it up itself."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from sleeper_nb.logs import ErrorStreamHandler, show_log

LOGS_A_WARNING = "import logging, sleeper_nb; logging.getLogger('sleeper_nb.part').warning('lost try %d', 3)"


def error_stream_of(script, level=None):
    """Return what a new process with this `SLEEPER_LOG` writes to its error stream."""
    environment = {name: value for name, value in os.environ.items() if name != "SLEEPER_LOG"}
    if level is not None:
        environment["SLEEPER_LOG"] = level
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return run.stderr


@pytest.fixture
def silent_again():
    yield
    show_log("off")


def test_nothing_is_printed_unless_it_is_asked_for():
    assert error_stream_of(LOGS_A_WARNING) == ""
    assert error_stream_of(LOGS_A_WARNING, "") == ""
    assert error_stream_of(LOGS_A_WARNING, "off") == ""
    assert error_stream_of(LOGS_A_WARNING, "error") == ""


@pytest.mark.parametrize("level", ["warning", "INFO", " debug "])
def test_the_environment_variable_shows_the_log(level):
    assert error_stream_of(LOGS_A_WARNING, level).endswith(" WARNING sleeper_nb.part: lost try 3\n")


def test_an_unknown_level_in_the_environment_is_a_warning_and_no_error():
    assert "SLEEPER_LOG: 'loud' is not a log level; use debug, info, warning, error or off" in error_stream_of(
        "import sleeper_nb", "loud"
    )


def test_a_level_that_a_program_set_before_the_import_stays():
    script = (
        "import logging; logging.getLogger('sleeper_nb').setLevel('DEBUG'); import sleeper_nb, sys;"
        "sys.stderr.write(str(logging.getLogger('sleeper_nb').level))"
    )
    assert error_stream_of(script) == str(logging.DEBUG)


@pytest.mark.usefixtures("silent_again")
def test_each_call_replaces_the_level_of_the_one_before(capsys):
    logger = logging.getLogger("sleeper_nb.part")
    show_log("info")
    show_log("warning")
    logger.info("routine")
    logger.warning("worse")
    assert capsys.readouterr().err.count("worse") == 1
    show_log("off")
    logger.error("silent")
    assert capsys.readouterr().err == ""
    assert not any(isinstance(one, ErrorStreamHandler) for one in logging.getLogger("sleeper_nb").handlers)


def test_a_wrong_level_is_refused_and_changes_nothing():
    with pytest.raises(ValueError, match="'loud' is not a log level; use debug, info, warning, error or off"):
        show_log("loud")
