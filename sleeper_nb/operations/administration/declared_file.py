"""The file that declares tables: found and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.operations.administration.applying import TableDeclaration, read_declarations


def declarations_of(declared: str | Path | Mapping[str, Any]) -> tuple[TableDeclaration, ...]:
    """Return the tables that a TOML file declares, or what it would say.

    Raises
    ------
    NotFound, StorageError, InvalidInput
        When there is no such file, it cannot be read, or something in it cannot be.
    """
    if isinstance(declared, Mapping):
        return read_declarations(declared, "what is declared")
    if "\0" in str(declared):
        raise InvalidInput(f"{str(declared)!r} is not a valid path", hint="give the path of a TOML file")
    path = Path(declared).expanduser()
    try:
        return read_declarations(path.read_text(encoding="utf-8"), str(declared))
    except FileNotFoundError as error:
        raise NotFound(f"no file {declared}", hint="give the path of a TOML file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{declared} is no UTF-8", hint="save it as UTF-8") from error
    except OSError as error:
        raise StorageError(f"cannot read {declared}: {error.strerror}", hint="give a file that can be read") from error
