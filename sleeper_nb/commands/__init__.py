"""The commands: one table from which the magics, the console, the help and the completion are made.

A new command is a module here with a `Command` in its ``COMMANDS``, a name in the tuple below, and its test.
"""

from __future__ import annotations

from sleeper_nb.commands import (
    change_table,
    create,
    describe,
    explore,
    load,
    maintenance,
    read,
    time_travel,
    warehouse,
)
from sleeper_nb.commands import help as help_commands
from sleeper_nb.commands.parse import CommandTable

COMMANDS = CommandTable(
    (
        *warehouse.OPENING_COMMANDS,
        *create.CREATING_COMMANDS,
        *change_table.ALTERING_COMMANDS,
        *load.INGESTING_COMMANDS,
        *describe.DESCRIBING_COMMANDS,
        *describe.CHECKING_COMMANDS,
        *read.QUERYING_COMMANDS,
        *read.SCANNING_COMMANDS,
        *load.EXPORTING_COMMANDS,
        *maintenance.COMPACTING_COMMANDS,
        *maintenance.SPLITTING_COMMANDS,
        *describe.JOBS_COMMANDS,
        *time_travel.SAVING_COMMANDS,
        *time_travel.ROLLING_BACK_COMMANDS,
        *time_travel.DIFFING_COMMANDS,
        *maintenance.CLEANING_COMMANDS,
        *describe.LEASING_COMMANDS,
        *maintenance.MAINTAINING_COMMANDS,
        *maintenance.SWITCHING_COMMANDS,
        *change_table.MIGRATING_COMMANDS,
        *change_table.ADMINISTERING_COMMANDS,
        *change_table.CONFIGURING_COMMANDS,
        *create.ADDING_COMMANDS,
        *create.APPLYING_COMMANDS,
        *warehouse.INSTANCES_COMMANDS,
        *explore.EXPLORING_COMMANDS,
        *explore.DEMONSTRATING_COMMANDS,
        *help_commands.EXPLAINING_COMMANDS,
        *help_commands.HELPING_COMMANDS,
    )
)
