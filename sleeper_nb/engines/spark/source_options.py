"""The options of Spark's data source ``sleeper``: which table of which instance, at which version, how much at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sleeper_nb.engines.spark.instance_place import ADDRESS, AWS, InstancePlace
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.jobs import check_job_id
from sleeper_nb.model.snapshots import (
    EPOCH,
    SnapshotReference,
    VersionReference,
    parse_moment,
    parse_version,
)
from sleeper_nb.versions.appends import CHANGES, SKIP_CHANGES, SKIP_ROLLBACKS, BatchLimits, StreamRules

TABLE: Final = "table"
PLACE: Final = (*ADDRESS, *AWS)
VERSION: Final = ("scan.snapshot-id", "scan.savepoint-id", "scan.timestamp", "scan.timestamp-millis", "version")
LIMITS: Final = ("maxSnapshotsPerTrigger", "maxFilesPerTrigger", "maxRowsPerTrigger")
REGION: Final = "scan.region"
WHERE: Final = "scan.where"
FOLLOWING: Final = (SKIP_ROLLBACKS, SKIP_CHANGES, CHANGES)
OPTIONS: Final = (TABLE, *PLACE, *VERSION, REGION, WHERE, *LIMITS, *FOLLOWING)
"""Every option of a read; Spark passes them in lower case."""
APPEND_OPTIONS: Final = (TABLE, *PLACE, "message", "job-id")
"""Every option of a write."""
_PATH: Final = "path"
"""What Spark calls the argument of ``load``."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one DataFrame or stream.

    Parameters
    ----------
    rules
        What a stream does at snapshots that did more than append rows.
    region
        The row keys whose rows are read, as text; None for all.
    where
        The condition that rows meet, in DuckDB's SQL; None for all.
    """

    place: InstancePlace
    table: str
    version: VersionReference | None
    limits: BatchLimits
    rules: StreamRules
    region: str | None = None
    where: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], place: InstancePlace) -> SourceOptions:
        """Read the options of a DataFrame; by default the instance is at `place`.

        Raises
        ------
        NotFound
            When an option does not exist; the nearest is named.
        InvalidInput
            When no table is named, several versions are, or a value cannot be read.
        """
        values = _known(options, OPTIONS)
        table = _table(values, ".load()")
        limits = BatchLimits(*(_count(values, name) for name in LIMITS))
        rules = StreamRules(*(_truth(values, name) for name in FOLLOWING))
        if rules.changes and rules.skip_changes:
            raise InvalidInput(
                f"{CHANGES} and {SKIP_CHANGES} exclude each other: changes are given or skipped", hint="set one of them"
            )
        there, rows = place.overridden(values), (values.get(REGION), values.get(WHERE))
        return cls(there, table, _version(values), limits, rules, *rows)


@dataclass(frozen=True, slots=True)
class AppendOptions:
    """The options of one append.

    Parameters
    ----------
    message, job_id
        As `sleeper_nb.Table.ingest` takes them.
    """

    place: InstancePlace
    table: str
    message: str | None
    job_id: str | None

    @classmethod
    def of(cls, options: Mapping[str, str], place: InstancePlace) -> AppendOptions:
        """Read the options of an append; by default the instance is at `place`; errors as `SourceOptions.of`."""
        values = _known(options, APPEND_OPTIONS)
        job_id = values.get("job-id")
        named = _table(values, ".save()")
        return cls(
            place.overridden(values), named, values.get("message"), None if job_id is None else check_job_id(job_id)
        )


def _known(options: Mapping[str, str], accepted: Sequence[str]) -> dict[str, str]:
    """Return options by their own spelling; raise for one that is not accepted."""
    known = {name.casefold(): name for name in (*accepted, _PATH)}
    for name in options:
        if name.casefold() not in known:
            raise _unknown(name.casefold(), accepted)
    return {known[name.casefold()]: text for name, text in options.items()}


def _table(values: Mapping[str, str], last: str) -> str:
    table = values.get(TABLE, values.get(_PATH))
    if values.get(_PATH, table) != table:
        raise InvalidInput(
            f"two tables are named: {table!r} and {values[_PATH]!r}",
            hint=f'leave out .option("table", …), or write {last} without a name',
        )
    if not table:
        raise InvalidInput(
            "the data source needs to know which table", hint=f'write .option("table", "flights") before {last}'
        )
    return table


def _unknown(name: str, accepted: Sequence[str]) -> NotFound:
    spellings = {option.casefold(): option for option in accepted}
    near = difflib.get_close_matches(name, spellings, n=1)
    hint = f"did you mean {spellings[near[0]]!r}?" if near else f"available: {', '.join(accepted)}"
    return NotFound(f"no option {name!r} of the data source", hint=hint)


def _version(values: Mapping[str, str]) -> VersionReference | None:
    names = [name for name in VERSION if name in values]
    if len(names) > 1:
        raise InvalidInput(f"{names[0]} and {names[1]} both name a version", hint="give one of them")
    if not names:
        return None
    (name,) = names
    text = values[name].strip()
    if name == "scan.timestamp":
        return parse_moment(text)
    if name == "scan.timestamp-millis":
        return _moment_of(text)
    if name == "scan.savepoint-id":
        return parse_version(f"savepoint.{text}")
    reference = parse_version(text)
    if name == "scan.snapshot-id" and not isinstance(reference, SnapshotReference):
        raise InvalidInput(f"{name} cannot be {text!r}", hint="give the number of a snapshot")
    return reference


def _moment_of(millis: str) -> VersionReference:
    """Return the version at a time in milliseconds since 1970; as in Paimon, a snapshot of that millisecond counts."""
    try:
        return parse_moment(EPOCH + timedelta(milliseconds=int(millis), microseconds=999))
    except (ValueError, OverflowError) as error:
        hint = "give milliseconds since 1970, such as 1793527200000"
        raise InvalidInput(f"scan.timestamp-millis cannot be {millis!r}", hint=hint) from error


def _count(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InvalidInput(f"option {name} cannot be {text!r}", hint="give a whole number, at least 1")
    return int(text)


def _truth(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "false").casefold()
    if text not in {"true", "false"}:
        raise InvalidInput(f"option {name} cannot be {text!r}", hint="write true or false")
    return text == "true"
