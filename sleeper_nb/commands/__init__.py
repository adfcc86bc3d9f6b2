"""The commands: one table from which the magics, the console, the help and the completion are made.

A new command is a function under `command` in the module of its group, and its test. In the help, groups and their
commands have the order in which they are written.
"""

from __future__ import annotations

from types import ModuleType

from sleeper_nb.commands import (
    edit_rows,
    inspect_table,
    instance_admin,
    load,
    maintenance,
    read,
    setting_up,
    settings,
    sleeper_scripts,
    start,
    tables,
    time_travel,
)
from sleeper_nb.commands.command import Command, CommandGroup
from sleeper_nb.commands.parse import CommandTable


def _group(title: str, *modules: ModuleType) -> CommandGroup:
    values = (value for module in modules for value in vars(module).values())
    return CommandGroup(title, tuple(value for value in values if isinstance(value, Command)))


COMMANDS = CommandTable(
    (
        _group("Start", start, setting_up),
        _group("Tables", tables),
        _group("Load and export", load),
        _group("Change rows", edit_rows),
        _group("Query", read),
        _group("Time travel", time_travel),
        _group("Maintenance", maintenance),
        _group("Inspect", inspect_table),
        _group("Settings", settings),
        _group("Instances", instance_admin),
        CommandGroup("Sleeper's scripts", (sleeper_scripts.templates, *sleeper_scripts.SCRIPTS)),
    )
)
