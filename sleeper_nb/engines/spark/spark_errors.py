"""Turn Spark's long errors into short ones of this package, also those that its Python workers send back."""

from __future__ import annotations

import difflib
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sleeper_nb import errors
from sleeper_nb.errors import EngineError, InvalidInput, NetworkError, NotFound, SleeperError, StorageError
from sleeper_nb.model.load_hints import from_text

logger = logging.getLogger(__name__)

_LONGEST: Final = 300

# The end of a Python stack that a worker sends back: "sleeper_nb.errors.InvalidInput: message". Between message and
# hint may be lines for more of what is wrong.
_OURS: Final = re.compile(
    r"^(?:.*: )?sleeper_nb\.errors\.(\w+): (.*)"
    r"(?:((?:\n(?!\s|Traceback|The above|During).+){0,12}?)\n[ \t]*hint: (.*))?$",
    re.MULTILINE,
)
_HINT: Final = "; hint: "
"""Between message and hint of an error that Spark shows in its own words: it has one line there."""
_NO_MODULE: Final = re.compile(r"(?:ModuleNotFoundError|ImportError): (No module named '([\w.]+)'.*)")
_STACK_END: Final = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt|Exit)\b(?:: .*)?)$", re.MULTILINE)
_NO_JVM: Final = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError")
_S3A: Final = re.compile(r"org\.apache\.hadoop\.fs\.s3a|software\.amazon\.awssdk|\bs3a?://")
_KNOWN: Final[tuple[tuple[str, type[SleeperError], str, str], ...]] = (
    (
        r"No space left on device|Disk quota exceeded|not enough space on the disk",
        EngineError,
        "Spark ran out of disk space",
        "free some, or set spark.local.dir to a folder on a larger disk before Spark starts",
    ),
    (
        r"java\.lang\.OutOfMemoryError",
        EngineError,
        "Spark ran out of memory",
        "set spark.driver.memory, such as to 8g, before Spark starts",
    ),
    (
        r"Python worker failed to connect back",
        EngineError,
        "Spark lost a worker: its Python process did not answer in time",
        "run it again",
    ),
    (  # the order of rows in a shuffle may be another one the second time, so Spark must not compute it again in part
        r"map stage with indeterminate output was failed",
        EngineError,
        "Spark lost a worker, and with it rows that other tasks had read in part",
        "run it again",
    ),
    (
        r"\[UNSUPPORTED_TIME_TYPE\]",
        InvalidInput,
        "this Spark session has no type for times of day",
        "set spark.sql.timeType.enabled=true in the session, or leave out the columns of type time",
    ),
)
"""What the text of an error shows, and the error for it."""
_KNOWN_OF_S3A: Final[tuple[tuple[str, type[SleeperError], str, str], ...]] = (
    (
        r"AccessDeniedException|Access Denied|\b403\b|InvalidAccessKeyId|SignatureDoesNotMatch",
        StorageError,
        "S3 denies Spark access to the table's files",
        "check the keys of Spark's S3 file system (fs.s3a…): they must list and read the table's folder",
    ),
    (
        (
            r"AWS\w*IOException|AWSStatus500|SdkClientException|ApiCallTimeout|ConnectException|Socket\w*Exception|\b503\b|"
            r"NoHttpResponse|Connection reset|ConnectionClosed|Service Unavailable|SlowDown|Premature end of Content"
        ),
        NetworkError,
        "the network failed: no whole answer from S3 to Spark",
        "check the network, then run it again",
    ),
)
_CONDITION: Final = re.compile(r"^\[([A-Z0-9_.]+)\] ?")
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_DATA_EXCEPTION: Final = re.compile(r"SQLSTATE: 2[12]\w{3}")
"""The classes of errors about values: division by zero, overflow, a text that is no date, two rows in place of one."""
_WAITING: Final = "Exception thrown in awaitResult"
"""What Spark says where an action waits for another, whose error is the cause."""
_CAUSE: Final = re.compile(r"^Caused by: \S+: (\[[A-Z0-9_.]+\].*)$", re.MULTILINE)
_WHOLE: Final = "the whole error is its __cause__; in a notebook, the command why shows it"
_TOLERANT: Final = re.compile(r"Use [`'](try_\w+)[`']")
_ADVICE: Final = re.compile(r"\.? (?:Correct the value|Use [`']try_|If necessary set).*$")
_SQLSTATE: Final = re.compile(r" ?SQLSTATE: \w{5}\.?")


def explain(error: BaseException) -> SleeperError | None:
    """Return a `SleeperError`, in one line, for an error of Spark.

    Returns
    -------
    SleeperError | None
        The error to raise with `error` as its cause; an error of this package that was raised in one of Spark's
        Python workers is raised here as it was there. None for an error that is not Spark's.
    """
    if isinstance(error, SleeperError):
        return error
    kinds = {kind.__name__ for kind in type(error).__mro__}
    module = type(error).__module__.partition(".")[0]
    if not (module in {"pyspark", "py4j"} or kinds & set(_NO_JVM)):
        return None
    text = _text(error)
    ours = (
        _from_worker(text)
        or _known(text)
        or _from_statement(kinds, text)
        or _from_value(text)
        or _from_connection(kinds)
        or EngineError(
            f"Spark failed: {_first_line(text)}",
            hint=_WHOLE,
        )
    )
    # not its text, which may hold values of rows
    logger.debug("Spark raised %s, which is shown as %s", type(error).__name__, type(ours).__name__)
    return ours


def _text(error: BaseException) -> str:
    """Return the whole text of an error; Spark's own text needs a JVM, which may be gone."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - whatever the dead JVM's proxy raises
        text = " ".join(str(argument) for argument in error.args)
    return text or type(error).__name__


def _from_worker(text: str) -> SleeperError | None:
    """Return the error for what failed in one of Spark's Python workers; None when it failed elsewhere."""
    if match := _OURS.search(text):
        kind = getattr(errors, match[1], None)
        if isinstance(kind, type) and issubclass(kind, SleeperError):
            message, _, hint = match[2].strip().partition(_HINT)
            error = kind(message, hint=from_text(hint or (match[4].strip() if match[4] else None)))
            error.place = (match[3] or "").strip()
            return error
    if match := _NO_MODULE.search(text):
        package = match[2].partition(".")[0]
        return EngineError(
            f"Spark's Python workers cannot import a module: {match[1].strip()}",
            hint=f"install {package!r} in the Python of Spark's workers, and start a new session",
        )
    if "Traceback (most recent call last)" in text and (ends := _STACK_END.findall(text.partition("\n\tat ")[0])):
        return EngineError(
            f"Python code that Spark ran failed: {_cut(ends[-1])}", hint="the worker's whole stack is in its __cause__"
        )
    return None


def _known(text: str) -> SleeperError | None:
    known = (*_KNOWN, *(_KNOWN_OF_S3A if _S3A.search(text) else ()))
    return next((kind(message, hint=hint) for shown, kind, message, hint in known if re.search(shown, text)), None)


def _from_statement(kinds: set[str], text: str) -> SleeperError | None:
    if not kinds & {"AnalysisException", "ParseException"}:
        return None
    condition = _CONDITION.match(text)
    name = condition[1] if condition else ""
    message = _first_line(text)
    if "ParseException" in kinds:
        where = re.search(r"\(line (\d+), pos (\d+)\)", text)
        place = f" (line {where[1]}, position {where[2]})" if where and where[0] not in message else ""
        return InvalidInput(f"{message}{place}", hint="check the statement's spelling there")
    if name.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        missing = re.search(r"The table or view (\S+) cannot be found", text)
        return NotFound(
            f"no table or view {missing[1].replace('`', '')!r}" if missing else message, hint="check its spelling"
        )
    if near := re.search(r"Did you mean one of the following\? \[(.*?)\]", text):
        # Spark lists all of them in one long line, nearest first.
        named = [candidate.replace("`", "") for candidate in near[1].split(", ")]
        missing = re.search(r"with name `([^`]+)`", text)
        nearest = difflib.get_close_matches(missing[1], named) if missing else []
        nearest = nearest or named[:3]
        return InvalidInput(message.partition(" Did you mean")[0], hint=f"did you mean {' or '.join(nearest)}?")
    return InvalidInput(message, hint="check the statement against the columns and types of its tables")


def _from_value(text: str) -> SleeperError | None:
    """Return the error for a value that an expression cannot have; Spark's advice is the hint, but for its settings."""
    if not _DATA_EXCEPTION.search(text):
        return None
    message = _first_line(text)
    function = _TOLERANT.search(message)
    hint = f"{function[1]} is NULL for such a value" if function else _WHOLE
    return InvalidInput(f"Spark: {_ADVICE.sub('', message).rstrip('.')}", hint=hint)


def _from_connection(kinds: set[str]) -> SleeperError | None:
    if not kinds & set(_NO_JVM):
        return None
    return EngineError("Spark's JVM does not answer", hint="run it again: Spark restarts when its JVM is gone")


def _first_line(text: str) -> str:
    """Return the first line with content, without condition names, class names and SQL states."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Py4J's first line names the call that failed, its second what was wrong.
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    line = lines[0].removeprefix(": ") if lines else ""
    line = _JAVA_CLASS.sub("", line)
    if line.startswith(_WAITING) and (cause := _CAUSE.search(text)):
        line = cause[1]
    if not _CONDITION.sub("", line) and len(lines) > 1:  # a message that begins with an empty line
        line = lines[1]
    return _cut(_SQLSTATE.sub("", _CONDITION.sub("", line)).strip().rstrip(";").rstrip())


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


_HIDES_STACK = "SPARK_HIDE_TRACEBACK"
"""The variable that PySpark reads when it reports the error that ends one of its Python processes."""


@contextmanager
def without_stack() -> Iterator[None]:
    """Make Spark show an error of this package by its message and hint alone, in one line; also used as a decorator.

    The process of Spark ends with the error, so no other error loses its stack. In other processes this does nothing.
    """
    try:
        yield
    except SleeperError as error:
        if _is_spark_process():
            os.environ[_HIDES_STACK] = "1"
            if not error.place:
                error.message, error.hint = in_one_line(error), None
        raise


def in_one_line(error: BaseException) -> str:
    """Return the text of an error for those who see Spark's errors as they are: message and hint in one line."""
    if not isinstance(error, SleeperError) or error.place:
        return str(error)
    return f"{error.message}{_HINT}{error.hint}" if error.hint else error.message


def as_raised(error: SleeperError) -> str:
    """Return the text of an error from which `explain` makes it again, with its class."""
    return f"sleeper_nb.errors.{type(error).__name__}: {in_one_line(error)}"


def _is_spark_process() -> bool:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
