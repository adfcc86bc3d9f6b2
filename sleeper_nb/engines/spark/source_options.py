"""The options of Spark's data source ``sleeper``: which table of which instance, at which version, how much at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions
from sleeper_nb.model.snapshots import (
    SnapshotReference,
    VersionReference,
    parse_moment,
    parse_version,
)
from sleeper_nb.operations.versioning.appends import SKIP_ROLLBACKS, BatchLimits

TABLE: Final = "table"
PLACE: Final = ("warehouse", "instance", "region", "endpoint-url")
VERSION: Final = ("scan.snapshot-id", "scan.savepoint-id", "scan.timestamp", "version")
LIMITS: Final = ("maxSnapshotsPerTrigger", "maxFilesPerTrigger", "maxRowsPerTrigger")
OPTIONS: Final = (TABLE, *PLACE, *VERSION, *LIMITS, SKIP_ROLLBACKS)
"""Every option; Spark tells them in lower case."""
_PATH: Final = "path"
"""What Spark calls the argument of ``load``."""


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """Where an instance is, as `sleeper_nb.connect` takes it: what another process needs to open it by itself.

    Parameters
    ----------
    warehouse
        An absolute folder, or ``s3://bucket/prefix``.
    instance
        Its name below the warehouse.
    region, endpoint_url
        Of S3 and DynamoDB; found by that process when None. Keys are never part of it.
    permissions
        What the session's user allows the properties of its tables to name.
    """

    warehouse: str
    instance: str
    region: str | None = None
    endpoint_url: str | None = None
    permissions: Permissions = NOTHING_ALLOWED

    def overridden(self, options: Mapping[str, str]) -> InstancePlace:
        """Return the place with the parts that options name; what is allowed here is not allowed elsewhere."""
        names = dict(zip(PLACE, ("warehouse", "instance", "region", "endpoint_url"), strict=True))
        here = {field: getattr(self, field) for field in names.values()}
        there = here | {field: options[name] for name, field in names.items() if name in options}
        return self if there == here else InstancePlace(**there)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a user asked the data source for.

    Parameters
    ----------
    place
        The instance.
    table
        The name of the table.
    version
        Which one; None for the current one.
    limits
        Of one batch of a stream.
    skip_rollbacks
        Whether a stream passes over rollbacks.
    """

    place: InstancePlace
    table: str
    version: VersionReference | None
    limits: BatchLimits
    skip_rollbacks: bool

    @classmethod
    def of(cls, options: Mapping[str, str], place: InstancePlace) -> SourceOptions:
        """Read the options of a DataFrame; the instance is at `place` where they do not say otherwise.

        Raises
        ------
        NotFound
            When there is no such option; the nearest is named.
        InvalidInput
            When no table is named, several versions are, or a value cannot be read.
        """
        given = {name.casefold(): text for name, text in options.items()}
        known = {name.casefold(): name for name in (*OPTIONS, _PATH)}
        for name in given:
            if name not in known:
                raise _unknown(name)
        said = {known[name]: text for name, text in given.items()}
        named = said.get(TABLE, said.get(_PATH))
        if not named:
            raise InvalidInput(
                "the data source is not told which table", hint='write .option("table", "flights") before .load()'
            )
        limits = BatchLimits(*(_count(said, name) for name in LIMITS))
        return cls(place.overridden(said), named, _version(said), limits, _truth(said, SKIP_ROLLBACKS))


def _unknown(name: str) -> NotFound:
    """Return the error, which names the nearest option as it is written."""
    spelt = {option.casefold(): option for option in OPTIONS}
    near = difflib.get_close_matches(name, spelt, n=1)
    hint = f"did you mean {spelt[near[0]]!r}?" if near else f"there are: {', '.join(OPTIONS)}"
    return NotFound(f"no option {name!r} of the data source", hint=hint)


def _version(said: Mapping[str, str]) -> VersionReference | None:
    asked = [name for name in VERSION if name in said]
    if len(asked) > 1:
        raise InvalidInput(f"{asked[0]} and {asked[1]} both name a version", hint="give one of them")
    if not asked:
        return None
    (name,) = asked
    text = said[name].strip()
    if name == "scan.timestamp":
        return parse_moment(text)
    if name == "scan.savepoint-id":
        return parse_version(f"savepoint.{text}")
    found = parse_version(text)
    if name == "scan.snapshot-id" and not isinstance(found, SnapshotReference):
        raise InvalidInput(f"{name} cannot be {text!r}", hint="give the number of a snapshot")
    return found


def _count(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InvalidInput(f"option {name} cannot be {text!r}", hint="give a whole number from 1 on")
    return int(text)


def _truth(said: Mapping[str, str], name: str) -> bool:
    text = said.get(name, "false").casefold()
    if text not in {"true", "false"}:
        raise InvalidInput(f"option {name} cannot be {text!r}", hint="it is true or false")
    return text == "true"
