"""The variables of the code that calls this package, for ``session.sql("FROM df")``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from types import FrameType
from typing import Any, Final, Self

_PACKAGE: Final = __name__.partition(".")[0]


def readable(data: Mapping[str, Any] | None) -> AbstractContextManager[Mapping[str, Any]]:
    """Return what a statement may read by name: what the caller passed, or the caller's variables when that is None.

    The caller is the nearest code that is not of this package.
    """
    return CallerVariables(sys._getframe(1)) if data is None else nullcontext(data)  # noqa: SLF001 - documented


class CallerVariables(Mapping[str, Any]):
    """The variables that the calling code can name: those of its function, then those of its module.

    None is looked up before a statement names something that is no table. After the ``with`` it has only those that
    were looked up: an answer would otherwise keep every variable of its caller alive. Until Python 3.13, a function
    whose variables were looked up itself keeps them all until it returns.

    Parameters
    ----------
    frame
        Of this package's code that the caller called, or of the caller.
    """

    def __init__(self, frame: FrameType) -> None:
        caller: FrameType | None = frame
        while caller is not None and str(caller.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
            caller = caller.f_back
        self._caller = caller
        self._read: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._caller = None

    def __getitem__(self, name: str) -> Any:
        for variables in self._scopes():
            try:
                return self._read.setdefault(name, variables[name])
            except KeyError:  # which is not asked for before: another thread may take the variable away meanwhile
                continue
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        scopes = [list(variables) for variables in self._scopes() if isinstance(variables, Mapping)]
        return iter(dict.fromkeys(chain.from_iterable(scopes)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _scopes(self) -> tuple[Mapping[str, Any], ...]:
        if self._caller is None:
            return (self._read,)
        return self._read, self._caller.f_locals, self._caller.f_globals
