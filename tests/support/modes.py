"""Folders that may only be read. Root ignores modes by a capability of Linux, which is put aside for a while."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_VERSION_3 = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2 | 1 << 3
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Set(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextlib.contextmanager
def _modes_count() -> Iterator[None]:
    if os.geteuid():
        yield
        return
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION_3, 0), (_Set * 2)()
    assert libc.capget(ctypes.byref(header), sets) == 0
    before = sets[0].effective
    sets[0].effective = before & ~_OVERRIDES
    assert libc.capset(ctypes.byref(header), sets) == 0
    try:
        yield
    finally:
        sets[0].effective = before
        assert libc.capset(ctypes.byref(header), sets) == 0


@contextlib.contextmanager
def read_only(paths: Iterable[Path]) -> Iterator[None]:
    """Forbid this thread, root's too, to write to files and folders; what is below them is forbidden too."""
    every = [each for path in paths for each in (path, *path.rglob("*"))]
    modes = [(each, each.stat().st_mode) for each in every]
    for each, mode in modes:
        each.chmod(mode & ~0o222)
    try:
        with _modes_count():
            yield
    finally:
        for each, mode in modes:
            if each.exists():
                each.chmod(mode)
