"""Completion after ``%sleeper``, in IPython's form: what `CommandCompleter` offers, and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from IPython.core.completer import SimpleCompletion, context_matcher

from sleeper_nb.commands.candidates import NOTHING, Candidates, CommandCompleter, FileKind, as_one_word, split_typed
from sleeper_nb.commands.command import OUTPUT
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.known_names import SessionNames
from sleeper_nb.loadable import is_data_file

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

_LINE = re.compile(r"(?:^|=)\s*%sleeper\s+(.*)$")
_CELL = re.compile(r"\s*%%sleeper\s+")


def sleeper_matcher(context: Context) -> Callable[[CompletionContext], dict[str, Any]]:
    """Return the function that IPython asks. It never raises."""
    completer = CommandCompleter(SessionNames(context), (OUTPUT,))

    @context_matcher(identifier="sleeper_matcher")  # type: ignore[untyped-decorator]
    def matcher(request: CompletionContext) -> dict[str, Any]:
        try:
            typed = typed_after_magic(request.full_text, request.cursor_line, request.cursor_position)
            found = NOTHING if typed is None else _with_files(completer.complete(typed, request.full_text), typed)
        except Exception:  # noqa: BLE001 - a key that offers nothing is better than one that fails
            found = NOTHING
        if not found.words:
            return {"completions": [], "suppress": False}
        words = [SimpleCompletion(text=word, type="sleeper") for word in found.words[: request.limit]]
        return {"completions": words, "matched_fragment": found.fragment, "suppress": True, "ordered": True}

    return cast("Callable[[CompletionContext], dict[str, Any]]", matcher)


def typed_after_magic(cell: str, line: int, column: int) -> str | None:
    """Return the text between ``%sleeper`` or ``%%sleeper`` and the cursor; None when there is no magic."""
    lines = cell.split("\n")
    until = "\n".join([*lines[:line], lines[line][:column]])
    if whole := _CELL.match(until):
        return until[whole.end() :]
    one = _LINE.search(lines[line][:column])
    return one[1] if one else None


def _with_files(found: Candidates, typed: str) -> Candidates:
    if not found.files:
        return found
    line = split_typed(typed)
    names = _files(found.fragment, found.files)
    shown = names if line.quote else map(as_one_word, names)
    fragment = line.raw if line.last == found.fragment else found.fragment
    return replace(found, fragment=fragment, words=tuple(chain(found.words, shown)))


def _files(begun: str, kind: FileKind) -> Iterator[str]:
    """Yield the folders and files whose path begins so; hidden ones only after a dot."""
    folder, slash, name = begun.rpartition("/")
    for path in sorted(Path(f"{folder}{slash}" or ".").expanduser().iterdir()):
        is_folder = path.is_dir()
        is_wanted = is_folder or kind == "any" or is_data_file(path.name)
        if path.name.startswith(name or "") and is_wanted and (name.startswith(".") or not path.name.startswith(".")):
            yield f"{folder}{slash}{path.name}{'/' if is_folder else ''}"
