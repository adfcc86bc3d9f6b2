"""The permissions that a user gives a session: Python functions that change rows, and folders outside the warehouse."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sleeper_nb.errors import Action, HintParts, InvalidInput, NotAllowed

Function = Callable[[Any, str], Any]
"""An iterator: takes a ``pyarrow.RecordBatch`` and the text of its property, and returns a batch."""

IteratorNames = Iterable[str] | Mapping[str, Function]


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a session may do beyond its warehouse. Only the user can allow it; files of a warehouse never do."""

    # the names of iterators that may run, each with its function; None if the name tells what to import
    iterators: Mapping[str, Function | None] = field(default_factory=dict)
    # absolute folders and ``s3://`` addresses outside the warehouse. Tables may keep their files in or below them.
    data_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, iterators: IteratorNames = (), data_paths: Iterable[str | Path] = ()) -> Self:
        """Return the permissions for the arguments of `sleeper_nb.connect`.

        `InvalidInput` when they are not names, functions or folders.
        """
        for argument, given in (("iterators", iterators), ("data_paths", data_paths)):
            if isinstance(given, str | Path) or not isinstance(given, Iterable):
                raise InvalidInput(f"{argument} is {given!r}, not a list", hint=f"write {argument}=[{str(given)!r}]")
        functions = dict(iterators) if isinstance(iterators, Mapping) else dict.fromkeys(iterators)
        for name, function in functions.items():
            if not isinstance(name, str) or not name:
                raise InvalidInput(f"{name!r} is not the name of an iterator", hint='write "package.module:function"')
            if isinstance(iterators, Mapping) and not callable(function):
                raise InvalidInput(
                    f"iterator {name!r} is a {type(function).__name__}",
                    hint="give a function that takes (batch, config)",
                )
        return cls(functions, tuple(map(_address, data_paths)))

    def with_more(self, others: Permissions) -> Permissions:
        """Return the union with others; theirs win where both have a function of one name."""
        names = dict.fromkeys((*self.iterators, *others.iterators))
        iterators = {name: others.iterators.get(name) or self.iterators.get(name) for name in names}
        return Permissions(iterators, tuple(dict.fromkeys((*self.data_paths, *others.data_paths))))

    def function(self, name: str) -> Function | None:
        """Return the function given for an iterator; None if its name tells what to import.

        `NotAllowed` when the user has not allowed the iterator.
        """
        if name not in self.iterators:
            text = json.dumps(name, ensure_ascii=False)
            raise NotAllowed(
                f"iterator {name!r} of the table's properties is Python code, which this session may not run",
                hint=f"if you trust it: connect(…, iterators=[{text}]), or "
                f'iterators = [{text}] and warehouse = "…" in a sleeper.toml that you trust',
            )
        return self.iterators[name]


NOTHING_ALLOWED = Permissions()


def place_not_allowed(address: str, instance: str) -> NotAllowed:
    """Return the error for a table whose files are outside the warehouse, in a folder that the user has not allowed.

    `instance` is the folder of the instance; "" when it is not known.
    """
    problem = f"a table's files are at {address}, outside the warehouse, which this session may not use"
    return NotAllowed(problem, hint=_hint_to_allow(address, instance))


def file_not_allowed(address: str, instance: str) -> NotAllowed:
    """Return the error for a data file outside the warehouse, in a folder that the user has not allowed."""
    problem = f"data file {address} is outside the warehouse, in a folder which this session may not use"
    return NotAllowed(problem, hint=_hint_to_allow(address.rpartition("/")[0], instance))


def _hint_to_allow(folder: str, instance: str) -> HintParts:
    warehouse, _, name = instance.rpartition("/")
    text, named = json.dumps(folder, ensure_ascii=False), json.dumps(warehouse, ensure_ascii=False)
    of_instance = "" if name in {"", "default"} else f" --instance {name}"
    opened = f"{shlex.quote(warehouse or 'WAREHOUSE')}{of_instance}"
    allowing = Action(f"use {opened} --data-path {shlex.quote(folder)}",
                      f"session.allow(data_paths=[{text}]), or connect(…, data_paths=[{text}])")  # fmt: skip
    of_file = f" and warehouse = {named}" if warehouse else ""
    return ("if you trust it: ", allowing, f", or write data-paths = [{text}]{of_file} into sleeper.toml")


def _address(path: str | Path) -> str:
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidInput(f"{path!r} is not a folder", hint="give an absolute path, or s3://bucket/prefix")
    return str(path) if "://" in str(path) else str(Path(path).expanduser().absolute())
