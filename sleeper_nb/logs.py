"""Logging: the package's loggers are silent, until ``SLEEPER_LOG`` or ``%config SleeperMagics.log`` shows them.

Each module logs to ``logging.getLogger(__name__)``, below ``sleeper_nb``. Programs configure these loggers as any
others; this module never changes the root logger.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping

VARIABLE = "SLEEPER_LOG"
LEVELS = ("debug", "info", "warning", "error")
OFF = "off"
_LOGGER = logging.getLogger("sleeper_nb")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time in UTC, level, logger, message, and the record's ``facts``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        values = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values, default=str)


class StderrHandler(logging.Handler):
    """Writes a line for each record to what ``sys.stderr`` is at that time, which notebooks and tests replace.

    Parameters
    ----------
    as_json
        Whether each line is an object of JSON.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        super().__init__()
        formatter = JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        formatter.converter = time.gmtime
        formatter.default_msec_format = "%s.%03dZ"
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless the root logger shows it on the terminal or in the notebook already."""
        stream = sys.stderr
        if stream is None or _is_shown_by_root():
            return
        try:
            from sleeper_nb.errors import visible  # as below

            stream.write(f"{visible(self.format(record))}\n")
            stream.flush()
        except Exception:  # noqa: BLE001 - as every handler of `logging`: a log that fails stops no work
            self.handleError(record)


def _is_shown_by_root() -> bool:
    shown = {sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__}
    return any(getattr(handler, "stream", None) in shown for handler in logging.getLogger().handlers)


def show(level: str, *, as_json: bool = False) -> None:
    """Show the package's records from a level on; `OFF` shows none.

    Parameters
    ----------
    level
        ``debug``, ``info``, ``warning``, ``error`` or ``off``.
    as_json
        Whether each line is an object of JSON.
    """
    shown = [each for each in _LOGGER.handlers if isinstance(each, StderrHandler)]
    for handler in shown:
        _LOGGER.removeHandler(handler)
    if level == OFF:
        if shown:  # or the level is the program's own
            _LOGGER.setLevel(logging.NOTSET)
        return
    _LOGGER.addHandler(StderrHandler(as_json=as_json))
    _LOGGER.setLevel(level.upper())


def level_of(environment: Mapping[str, str]) -> str:
    """Return the level that ``SLEEPER_LOG`` names, `OFF` when none is set; `InvalidInput` when it is no level."""
    level = _named_level(environment)
    if level is None:
        from sleeper_nb.errors import InvalidInput  # the import of the package, which calls `start`, needs no errors

        choices = f"{', '.join(LEVELS)} or {OFF}"
        raise InvalidInput(f"{VARIABLE} cannot be {environment[VARIABLE]!r}", hint=f"set it to {choices}")
    return level


def _named_level(environment: Mapping[str, str]) -> str | None:
    level = environment.get(VARIABLE, "").strip().lower() or OFF
    return level if level in (*LEVELS, OFF) else None


def start(environment: Mapping[str, str]) -> None:
    """Silence the package's loggers, then show them as ``SLEEPER_LOG`` says.

    A wrong level is not an error here, while the package is imported; each face reports it at its first use.
    """
    if not any(isinstance(handler, logging.NullHandler) for handler in _LOGGER.handlers):
        _LOGGER.addHandler(logging.NullHandler())
    level = _named_level(environment)
    if level not in (None, OFF):
        show(level)
