"""Decide what a ``sleeper.toml`` may say: it is found in any parent folder, so another person may have written it.

As with Git's ``safe.directory``: a file that belongs to another user, or that every user may write to, is refused. The
user's own file may have come with a copied folder. So iterators, and all settings of Spark that are not known to be
harmless, also need trust: they may name code, a command, a file or a cluster.
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
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?\s*([kmgtp]?i?b?|[nmu]?s|min|h|d|%)|true|false", re.IGNORECASE | re.ASCII)
_OF_NUMBERS = re.compile(
    r"spark\.((driver|executor)\.(memory|memoryOverhead|memoryOverheadFactor|cores|maxResultSize|instances)|"
    r"cores\.max|default\.parallelism|speculation|network\.timeout|rpc\.message\.maxSize|"
    r"ui\.(enabled|port|showConsoleProgress)|(task|memory|dynamicAllocation|locality|shuffle|reducer|broadcast)\..+|"
    r"sql\.((adaptive|shuffle|files|parquet|join|cbo|execution\.arrow|codegen)\..+|\w+))"
)
"""Settings that a number, a size, a time, true or false cannot make harmful."""
_OF_TEXTS = {
    "spark.master": re.compile(r"local(\[[^\[\]]*\])?"),  # any other is a cluster, which gets code and rows
    "spark.app.name": re.compile(r".*"),
    "spark.local.dir": re.compile(r".*"),
    "spark.scheduler.mode": re.compile(r"\w*"),
    "spark.sql.session.timeZone": re.compile(r"[\w/+:-]*"),
}


def is_harmless(setting: str, value: str) -> bool:
    """Return whether any file may have a setting of Spark; others may name code, a file or another machine. Pure."""
    if setting in _OF_TEXTS:
        return _OF_TEXTS[setting].fullmatch(value) is not None
    return _OF_NUMBERS.fullmatch(setting) is not None and _NUMBER.fullmatch(value) is not None


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
            if problem is not None:
                _check_is_trusted(path, environment, *problem)
            return file.read().decode("utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {error}", hint=hint) from error


def _problem(path: Path, file: os.stat_result, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why a file may not be the user's, and how to fix that without trust; None for one of the user."""
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


def check_harmless(path: Path, others: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise `NotAllowed` when a file has settings that need trust, and the user's configuration does not list it."""
    if others:
        problem = f"{others[0]} in {path} may name code, a command or another machine"
        allowed = "only plain settings, such as spark.executor.memory, need no trust"
        _check_is_trusted(path, environment, f"{problem}: {allowed}", "")


def _check_is_trusted(path: Path, environment: Mapping[str, str], problem: str, hint: str) -> None:
    trusted, file = _trusted(environment), str(path.absolute())
    if file not in trusted:
        listed = json.dumps([*trusted, file], ensure_ascii=False)
        hint += f"if you trust it: write {_TRUSTED} = {listed} into {_configuration(environment)}"
        raise NotAllowed(problem, hint=hint)


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
