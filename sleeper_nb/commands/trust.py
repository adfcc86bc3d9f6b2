"""Decide what a ``sleeper.toml`` may say: it is found in any folder above, so somebody else may have written it.

As with Git's ``safe.directory``: one that belongs to another user, or that every user may write to, is refused. What
names code, a command, a file or a cluster is refused in any, since a file of the user may have come with a copied
folder; a cluster gets code and rows.
The user's own configuration, ``$XDG_CONFIG_HOME/sleeper_nb/config.toml`` or ``~/.config/sleeper_nb/config.toml``, lists
the files that may say everything::

    trusted = ["/home/me/flights/sleeper.toml"]
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from sleeper_nb.errors import InvalidInput, NotAllowed
from sleeper_nb.model import config_text as toml_text

_TRUSTED = "trusted"
_HINT = f'write {_TRUSTED} = ["/folder/sleeper.toml"]'
_NO_CODE = re.compile(r"-?[0-9]+(\.[0-9]+)?\s*([kmgtp]?i?b?|[nmu]?s|min|h|d|%)|true|false", re.IGNORECASE | re.ASCII)
"""Values that cannot be a class or a command: numbers, sizes, times, true and false."""
_OF_CODE = re.compile(
    r"^spark\.jars\.|env\.|(jars?|files?|archives?|packages|path|dirs?|name|python|module|options|settings|script|conf|"
    r"command|class|classes|impl|plugins?|image|store|keytab|template|ur[il]s?|provider|factory|exec|program|shell)$",
    re.IGNORECASE,
)
"""Settings whose value is a file, a command, an option or a variable of the environment, which could be ``1``."""
_THIS_MACHINE = re.compile(r"local(\[[^\[\]]*\])?")
"""The master that is no cluster."""
_PLAIN_SETTINGS = frozenset(
    f"spark.{name}"
    for name in ("app.name", "submit.deployMode", "driver.host", "driver.bindAddress", "local.dir", "scheduler.mode",
                 "sql.session.timeZone", "yarn.queue", "kubernetes.namespace")
)  # fmt: skip
"""Settings of Spark whose text is an address, a folder or a name, and never code."""


def names_code(setting: str, value: str) -> bool:
    """Return whether a setting of Spark may name code, a command, a file with one, or a place that gets rows. Pure."""
    if setting == "spark.master":
        return _THIS_MACHINE.fullmatch(value) is None
    if setting in _PLAIN_SETTINGS:
        return False
    return _NO_CODE.fullmatch(value) is None or _OF_CODE.search(setting) is not None


def read_settings(path: Path, environment: Mapping[str, str], hint: str) -> str:
    """Return the text of a settings file.

    A file of root counts as the user's own, and for ``sudo`` one of the user who ran it. Windows has no such owners.

    Raises
    ------
    NotAllowed
        When another user wrote it or may write it, and the user's own configuration does not list it.
    InvalidInput
        When it cannot be read; the error has the given hint.
    """
    try:
        with path.open("rb") as file:  # what is checked is what is read, also when the name gets another file meanwhile
            problem = _problem(path, os.fstat(file.fileno()), environment)
            if problem is not None and not _is_trusted(path, environment):
                raise NotAllowed(problem[0], hint=f"{problem[1]}{_line_that_trusts(path, environment)}")
            return file.read().decode("utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {error}", hint=hint) from error


def _problem(path: Path, file: os.stat_result, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why a file may not be the user's, and what mends it without trust; None for one of the user."""
    if not hasattr(os, "geteuid"):
        return None
    user = os.geteuid()
    allowed = {user, 0}
    if user == 0 and environment.get("SUDO_UID", "").isdecimal():
        allowed.add(int(environment["SUDO_UID"]))
    others = {file.st_uid, path.lstat().st_uid} - allowed  # also of a link, which says where the folder of the file is
    if others:
        return f"{path} belongs to another user (uid {others.pop()}; you have uid {user}), so it is not read", ""
    if file.st_mode & stat.S_IWOTH:
        return f"every user may write to {path}, so it is not read", f"type chmod o-w {shlex.quote(str(path))}, or "
    return None


def check_code(path: Path, named: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise `NotAllowed` when a file has settings that name code, and the user's own configuration does not list it."""
    if named and not _is_trusted(path, environment):
        raise NotAllowed(
            f"{named[0]} in {path} may name code, a command or another machine: only a file that you trust has it",
            hint=_line_that_trusts(path, environment),
        )


def _is_trusted(path: Path, environment: Mapping[str, str]) -> bool:
    return str(path.absolute()) in _trusted(environment)


def _line_that_trusts(path: Path, environment: Mapping[str, str]) -> str:
    listed = json.dumps([*_trusted(environment), str(path.absolute())], ensure_ascii=False)
    return f"if you trust it: write {_TRUSTED} = {listed} into {_configuration(environment)}"


def _trusted(environment: Mapping[str, str]) -> list[str]:
    own = _configuration(environment)
    if not own.is_file():
        return []
    text = own.read_text(encoding="utf-8")
    given = toml_text.load(text, str(own), _HINT)
    toml_text.check_keys(given, (_TRUSTED,), (text, str(own), ""))
    listed = given.get(_TRUSTED, [])
    if not isinstance(listed, list):
        raise InvalidInput(f"{toml_text.where(text, str(own), _TRUSTED)}: {_TRUSTED} is not a list", hint=_HINT)
    return [str(Path(str(each)).expanduser()) for each in listed]


def _configuration(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - that of `Path` fails without a home
    return Path(environment.get("XDG_CONFIG_HOME") or f"{home}/.config") / "sleeper_nb" / "config.toml"
