"""Show the log of `sleeper_nb` on the error stream; without `show_log`, or `SLEEPER_LOG`, nothing is printed.

Modules log through ``logging.getLogger(__name__)``. A program that sets up `logging` itself needs nothing from here.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings

LEVELS = ("debug", "info", "warning", "error")
"""What `show_log` and the environment variable `SLEEPER_LOG` accept, besides ``off``."""
VARIABLE = "SLEEPER_LOG"
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class ErrorStreamHandler(logging.Handler):
    """Write each record to the `sys.stderr` of the moment: a notebook gives each cell its own."""

    def __init__(self) -> None:
        super().__init__()
        formatter = logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S")
        formatter.converter = time.gmtime  # UTC, as everywhere
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, and the traceback if there is one."""
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 (a record that cannot be written must not stop the work)
            self.handleError(record)


def show_log(level: str) -> None:
    """Show log records of this level and above on the error stream, or none.

    Calling it again changes the level. Times are UTC.

    Parameters
    ----------
    level
        ``debug``, ``info``, ``warning`` or ``error``, in any case; ``off`` or an empty text to stop.

    Raises
    ------
    ValueError
        When `level` is none of these.
    """
    name = level.strip().lower() or "off"
    if name not in (*LEVELS, "off"):
        raise ValueError(f"{level!r} is not a log level; use {', '.join(LEVELS)} or off")
    logger = logging.getLogger("sleeper_nb")
    for handler in [one for one in logger.handlers if isinstance(one, ErrorStreamHandler)]:
        logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET if name == "off" else name.upper())
    if name != "off":
        logger.addHandler(ErrorStreamHandler())


def set_up_logging() -> None:
    """Keep the log silent unless it is asked for, and obey `SLEEPER_LOG`; `sleeper_nb` calls it when imported."""
    logging.getLogger("sleeper_nb").addHandler(logging.NullHandler())
    level = os.environ.get(VARIABLE, "")
    if not level:
        return
    try:
        show_log(level)
    except ValueError as error:
        warnings.warn(f"{VARIABLE}: {error}", stacklevel=2)
