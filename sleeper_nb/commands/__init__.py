"""The commands: one table from which the magics, the console, the help and the completion are made.

A new command is a module here with a `Command` in its ``COMMANDS``, a name in the tuple below, and its test.
"""

from __future__ import annotations

from sleeper_nb.commands import (
    adding,
    administering,
    altering,
    applying,
    checking,
    cleaning,
    compacting,
    configuring,
    creating,
    demonstrating,
    describing,
    diffing,
    explaining,
    exploring,
    exporting,
    helping,
    ingesting,
    instances,
    jobs,
    leasing,
    maintaining,
    migrating,
    opening,
    querying,
    rolling_back,
    saving,
    scanning,
    splitting,
    switching,
)
from sleeper_nb.commands.parsing import CommandTable

COMMANDS = CommandTable(
    command
    for module in (
        opening,
        creating,
        altering,
        ingesting,
        describing,
        checking,
        querying,
        scanning,
        exporting,
        compacting,
        splitting,
        jobs,
        saving,
        rolling_back,
        diffing,
        cleaning,
        leasing,
        maintaining,
        switching,
        migrating,
        administering,
        configuring,
        adding,
        applying,
        instances,
        exploring,
        demonstrating,
        explaining,
        helping,
    )
    for command in module.COMMANDS
)
