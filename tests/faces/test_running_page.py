"""The page on schedulers: each line is a command that parses, and its table has the exit codes of the code."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import pytest
import yaml

from docs.markdown import code_blocks
from sleeper_nb import cli
from sleeper_nb.commands import COMMANDS, outcome
from sleeper_nb.commands.help import ON_CONSOLE
from sleeper_nb.commands.parse import move_shared_last

PAGE = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")
VENV = "/srv/flights/.venv/bin"
"""Where cron and systemd find the command: they have no PATH of the user."""
SHARED = tuple(name for argument in ON_CONSOLE for name in argument.names)


def blocks(language: str) -> list[str]:
    return [content for each, content in code_blocks(PAGE) if each == language]


def commands() -> list[list[str]]:
    """Return the words of each command on the page."""
    crontab = [line for block in blocks("") for line in block.splitlines()]
    lines = [re.split(r"&& | 2?>", line)[1].removeprefix(f"{VENV}/") for line in crontab]
    lines += blocks("bash")[0].splitlines() + re.findall(r'bash_command="(.*)"', blocks("python")[0])
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(blocks("ini")[0])
    lines.append(unit["Service"]["ExecStart"].removeprefix(f"{VENV}/"))
    cron, deployment = map(yaml.safe_load, blocks("yaml"))
    pods = cron["spec"]["jobTemplate"]["spec"]["template"], deployment["spec"]["template"]
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    return [*map(shlex.split, lines), *([str(word) for word in each["command"]] for each in containers)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_each_command_is_one(words):
    assert words[0] == "sleeper"
    invocation = COMMANDS.parse_argv(move_shared_last(words[1:], SHARED), ON_CONSOLE)
    assert invocation.command.name in {"maintain", "status"}


def test_schedulers_without_a_path_get_the_whole_path():
    assert PAGE.count(f"{VENV}/sleeper maintain") == PAGE.count(f"{VENV}/sleeper status") == 2
    assert f"RestartPreventExitStatus={cli.MISUSED}\n" in PAGE


def test_the_exit_codes_are_those_of_the_code():
    named = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    signals = {outcome.BY_SIGNAL + number for number in (2, 15)}
    ours = {cli.DONE, cli.FAILED, cli.MISUSED, cli.UNREAD, outcome.WARNINGS, outcome.ERRORS, outcome.ELSEWHERE}
    assert named == ours | signals
    (unchecked,) = {int(text) for text in re.findall(r"skip_on_exit_code=(\d+)", PAGE)}
    assert unchecked == outcome.ELSEWHERE
