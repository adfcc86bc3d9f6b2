"""Instances of a warehouse: list and create them, check their names, and whose they are."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.errors import AccessDenied, Action, AlreadyExists, InvalidInput, NotFound, OfOtherWarehouse
from sleeper_nb.model.properties import InstanceProperties
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

_INSTANCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_LEAST_LETTERS = 5
"""Shorter names differ by one letter on purpose, as ``here`` and ``there``."""


@dataclass(frozen=True, slots=True)
class InstanceSummary:
    """An instance: its name, its tables, and how many rows they have now."""

    name: str
    tables: tuple[str, ...]
    rows: int


def check_instance_name(name: str) -> None:
    if not _INSTANCE_NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is not a valid instance name", hint="use letters, digits, - and _")


def instance_names(warehouse: Storage) -> tuple[str, ...]:
    """Return the instances of a warehouse: the folders in it that have a catalog or a ``config`` folder."""
    config = paths.INSTANCE_PROPERTIES.partition("/")[0]
    names = [name for name in warehouse.folders() if _INSTANCE_NAME.fullmatch(name)]
    return tuple(name for name in names if config in warehouse.folders(name) or _has_catalog(warehouse, name))


def _has_catalog(warehouse: Storage, name: str) -> bool:
    return warehouse.local and warehouse.has(f"{name}/{paths.CATALOG}")


def check_instance_exists(warehouse: Storage, name: str) -> None:
    """Raise `NotFound` when a warehouse has no instance of a name, so that a typing error creates none."""
    names = instance_names(warehouse)
    if name not in names:
        error = NotFound.of("instance", name, names, where=f" in {warehouse.root}")
        creating = Action(f"add-instance {name}", "sleeper_nb.connect(…)")
        raise NotFound(error.message, hint=(*error.hint_parts, " (", creating, " creates it)"))


def check_other_than_case(warehouse: Storage, name: str) -> None:
    """Raise `InvalidInput` for a new instance whose name differs from that of another one only in case."""
    names = instance_names(warehouse)
    other = next((each for each in names if each.casefold() == name.casefold()), name)
    if name not in names and other != name:
        hint = ("open that one: ", Action.opening(warehouse.root, other))
        raise InvalidInput(f"there is no instance {name!r} in {warehouse.root}, but there is {other!r}", hint=hint)


def is_slip(name: str, other: str) -> bool:
    """Return whether a name may be another one with a slip: one wrong, missing, additional or swapped letter. Pure.

    Names that differ only in case, ``-``, ``_``, ``.`` and spaces count too; those with other digits, or another short
    part, as ``sales_a`` and ``sales_b``, do not.
    """
    one, two = name.casefold(), other.casefold()
    plain = re.sub(r"[\W_]", "", one)
    if plain == re.sub(r"[\W_]", "", two):
        return name != other and len(plain) >= _LEAST_LETTERS
    ours, theirs = (re.split(r"([\W\d_]+)", each) for each in (one, two))
    differing = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b]
    if len(ours) != len(theirs) or len(differing) != 1:
        return False
    (a, b) = differing[0]
    return a.isalpha() and b.isalpha() and min(len(a), len(b)) >= _LEAST_LETTERS and _is_one_edit(a, b)


def _is_one_edit(one: str, two: str) -> bool:
    start = _shared(one, two)
    end = _shared(one[start:][::-1], two[start:][::-1])
    left, right = one[start : len(one) - end], two[start : len(two) - end]
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])


def _shared(one: str, two: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def check_not_a_slip(warehouse: Storage) -> None:
    """Raise `InvalidInput` for a folder that does not exist if its name is close to that of a warehouse next to it."""
    folder = Path(warehouse.root)
    if not warehouse.local or folder.exists():
        return
    try:
        beside = sorted(each for each in folder.parent.iterdir() if is_slip(folder.name, each.name) and each.is_dir())
    except OSError:  # the folder above is not there either, or cannot be listed
        return
    near = next((each for each in beside if instance_names(Storage(each))), None)
    if near is not None:
        new, there = (f"./{each.name}" if each.parent == Path.cwd() else str(each) for each in (folder, near))
        making = Action(f"use {shlex.quote(new)} --new", f"sleeper_nb.connect({new!r}, new=True)")
        hint = ("open that one: ", Action.opening(there, "default"), "; or make a new one: ", making)
        raise InvalidInput(f"there is no warehouse {new}, but there is {there}", hint=hint)


def add_instance(warehouse: Storage, name: str, properties: InstanceProperties) -> str:
    """Create an instance without tables, and return the address of its properties file.

    `AlreadyExists` when there is an instance of that name. `InvalidInput` when the warehouse is not there, and may be
    meant as another one (`check_not_a_slip`).
    """
    check_instance_name(name)
    if name in instance_names(warehouse):
        raise AlreadyExists(f"instance {name!r} already exists", hint="choose another name, or use that instance")
    check_other_than_case(warehouse, name)
    check_not_a_slip(warehouse)
    path = f"{name}/{paths.INSTANCE_PROPERTIES}"
    warehouse.write(path, properties.to_text().encode())
    return warehouse.locate(path)


# Which warehouse an instance on DynamoDB belongs to: its name is unique in an account and region, not in a bucket.

logger = logging.getLogger(__name__)


def check_warehouse(catalog: DynamoDBCatalog, storage: Storage) -> bool:
    """Check that an instance may be used with the files of this warehouse; nothing is changed.

    The catalog says whose it is. One that an earlier release made does not; then its tables' files decide.

    `OfOtherWarehouse` when it belongs to another warehouse, or none of its tables has its files here.

    Returns
    -------
    Whether the catalog has no warehouse yet, and all it lists is here: then it may be claimed.
    """
    if not catalog.lacks_warehouse:
        return False
    from sleeper_nb.catalog.dynamodb.catalog import OTHER_INSTANCE

    ids = {entry.id for entry in catalog.tables()}
    if not ids:
        return storage.has(paths.INSTANCE_PROPERTIES)
    here = {file.path for file in storage.list(paths.TABLES)}
    missing = {each for each in ids if paths.table_properties(each) not in here}
    if missing == ids:
        raise OfOtherWarehouse(
            f"instance {catalog.instance!r} of this account and region belongs to another warehouse: "
            f"none of its tables has its files in {catalog.warehouse}",
            hint=("choose another name: ", OTHER_INSTANCE, "; or open the warehouse of its tables"),
        )
    if missing:
        logger.warning("instance %s has tables of several warehouses; delete none here", catalog.instance)
    return not missing


def settle_warehouse(catalog: DynamoDBCatalog, storage: Storage) -> None:
    """Check as `check_warehouse` does, and claim what may be claimed, if the keys may write."""
    if check_warehouse(catalog, storage):
        with contextlib.suppress(AccessDenied):
            catalog.claim()
