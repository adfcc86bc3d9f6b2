"""`completion`: what a user sets up once on a machine."""

from __future__ import annotations

from argparse import Namespace

from sleeper_nb.commands.command import command, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.report import Answer, Grid


@command(
    "completion",
    "print the script for Tab in a shell, which offers commands, tables and columns",
    positional(
        "shell",
        'which reads it: write eval "$(sleeper completion bash)" into ~/.bashrc; the same with zsh into ~/.zshrc, '
        "after compinit; or sleeper completion fish | source into config.fish",
        choices=("bash", "zsh", "fish"),
    ),
    examples=("completion bash", "completion zsh", "completion fish"),
    words=("tab", "autocomplete", "complete"),
    reads_only=True,
    warehouse="none",
)
def completion(_context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.commands.shell_completion import SCRIPTS

    return Answer(Grid((), (), footer=SCRIPTS[arguments.shell].removesuffix("\n")))
