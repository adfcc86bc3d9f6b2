"""Collect what a test has dropped, without going through all objects of the test process."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def young_garbage() -> Iterator[Callable[[], int]]:
    """Return what collects everything unreachable that was made since.

    Python collects nothing by itself meanwhile, so that all of it is in the youngest generation: a full collection
    takes a second among all tests.
    """
    gc.disable()
    try:
        yield lambda: gc.collect(0)
    finally:
        gc.enable()
