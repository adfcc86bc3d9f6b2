"""Errors in Spark's Python processes, shown by Spark without the stack of those processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sleeper_nb.errors import SleeperError

_HIDES_STACK = "SPARK_HIDE_TRACEBACK"
"""The variable that PySpark reads when it writes down the error that ends one of its Python processes."""


@contextmanager
def without_stack() -> Iterator[None]:
    """Have Spark show an error of this package by its message and hint alone; also used as a decorator.

    A process of Spark ends with the error, so no other error loses its stack. In any other process it does nothing.
    """
    try:
        yield
    except SleeperError:
        if _is_spark_process():
            os.environ[_HIDES_STACK] = "1"
        raise


def _is_spark_process() -> bool:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
