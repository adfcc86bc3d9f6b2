"""The console command ``sleeper``: the same commands as ``%sleeper``, on a warehouse that an option names."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sleeper_nb import logs
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.help import ON_CONSOLE
from sleeper_nb.commands.home import Home, find_home
from sleeper_nb.commands.line_progress import LineProgress
from sleeper_nb.commands.outcome import DONE, FAILED, Outcome
from sleeper_nb.commands.parse import Invocation, move_shared_last
from sleeper_nb.errors import Action, ConfirmationNeeded, NotFound, SleeperError, StorageError, show_for, visible

if TYPE_CHECKING:
    from sleeper_nb.session import Session
    from sleeper_nb.session.warehouse import Warehouse

MISUSED, INTERRUPTED, UNREAD = 2, 130, 141
"""More exit codes, the last as of programs that nobody reads."""
_SHARED_NAMES = tuple(name for argument in ON_CONSOLE for name in argument.names)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and print its value.

    Parameters
    ----------
    argv
        The words after ``sleeper``; those of the process when None.

    Returns
    -------
    0; 1 when the command, or a step of it, failed, 2 when it could not be understood, 130 when it was interrupted, 141
    when the reader of its output had gone; or what the command's answer, an `Outcome`, has.
    """
    _write_any_character()
    words = move_shared_last(list(sys.argv[1:] if argv is None else argv), _SHARED_NAMES)
    if words[:1] == ["--version"]:
        from sleeper_nb import __version__

        return _print(f"sleeper-nb {__version__}")
    if words[:1] == ["--complete"]:  # asked by a script of `sleeper completion`
        from sleeper_nb.commands import shell_completion

        return _print(shell_completion.answer(words[1:], os.environ, Path.cwd()))
    try:
        logs.level_of(os.environ)  # a wrong level is an error; the package applied a right one when it was imported
        invocation = COMMANDS.parse_argv(words, ON_CONSOLE)
    except SleeperError as error:
        return _complain(error, MISUSED)
    return _run(invocation)


def _run(invocation: Invocation) -> int:
    progress = LineProgress(lambda: sys.stderr, _is_watched, lasting=lambda: True)
    ask = _ask if sys.stdin is not None and sys.stdin.isatty() and _is_watched() else None
    try:
        home = cache(partial(_home, invocation))  # a command that opens nothing need not find it
        context = Context("console", partial(_connect, home=home, progress=progress), progress=progress, ask=ask)
        try:
            if invocation.command.warehouse == "place":
                context.place = _place(home())
            elif not invocation.is_free:
                context.session = _open(invocation, home(), context)
            answer = invocation.run(context)
            if isinstance(answer, Outcome):
                return _print(repr(answer), answer.exit_code)
            return _print(repr(answer), FAILED if getattr(answer, "failed", ()) else DONE)
        finally:
            progress.finish()
            for session in filter(None, (context.session, *context.others.values())):
                session.close()
    except SleeperError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt as stop:
        _say("\n".join([invocation.interrupted, *getattr(stop, "__notes__", ())]))
        return INTERRUPTED
    except Exception as error:
        from sleeper_nb.session import own_error  # heavy, and wanted only here

        known = own_error(error)
        if known is None:
            raise
        return _complain(known, FAILED)


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _ask(text: str) -> str:
    sys.stderr.write(visible(text))
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _home(invocation: Invocation) -> Home:
    given = vars(invocation.arguments)
    return find_home(_instance(invocation), given.get("warehouse"), os.environ, Path.cwd())


def _instance(invocation: Invocation) -> str:
    given = vars(invocation.arguments)
    return given.get("instance_id") or given.get("instance") or "default"


def _open(invocation: Invocation, home: Home, context: Context) -> Session:
    instance, folder = _instance(invocation), home.folder
    if "instance_id" in vars(invocation.arguments):
        _place(home).check_instance(instance)
    elif invocation.command.warehouse == "open" and folder is not None and not (folder / instance).is_dir():
        _place(home)  # says what is wrong with an address that only looks like a folder
        raise _no_instance(home, instance, invocation.command.name)
    return context.connect(home.warehouse, instance)


def _no_instance(home: Home, instance: str, command: str) -> NotFound:
    names = () if home.folder is None or not home.folder.is_dir() else _place(home).instance_names()
    make = Action.opening(home.warehouse, instance)
    if not names:
        hint = (f"sleeper --warehouse FOLDER {command} …; or ", make, " creates one")
        return NotFound(f"no warehouse at {home.warehouse}", hint=hint)
    error = NotFound.of("instance", instance, names, where=f" in {home.warehouse}")
    return NotFound(error.message, hint=(*error.hint_parts, "; ", make, " creates it"))


def _place(home: Home) -> Warehouse:
    from sleeper_nb.session import open_warehouse  # heavy: it brings pyarrow

    return open_warehouse(home.warehouse, **home.aws)


def _connect(
    uri: str,
    instance: str,
    *data_paths: str,
    home: Callable[[], Home],
    progress: LineProgress,
    new: bool = False,
    **aws: str,
) -> Session:
    return home().for_address(uri).with_aws(aws).connect(instance, progress, *data_paths, new=new)


def _write_any_character() -> None:
    """Let the streams escape what their encoding lacks, such as that of a Windows console or of cron."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            with contextlib.suppress(OSError):  # it writes what was left, for which the disk may be full
                stream.reconfigure(errors="backslashreplace")


def _print(text: str, code: int = DONE) -> int:
    """Write an answer, and return the exit code: another one when nobody reads it, or it cannot be written."""
    if not text or sys.stdout is None:
        return code
    try:
        sys.stdout.write(visible(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # as of `sleeper history t | head -1`
        _drop(sys.stdout)
        return UNREAD
    except OSError as error:
        _drop(sys.stdout)
        hint = "the command itself was carried out"
        return _complain(StorageError(f"cannot write the answer: {error.strerror}", hint=hint), FAILED)
    return code


def _drop(stream: TextIO) -> None:
    """Write what is left in a stream to nowhere: Python tries again when it ends, with a traceback."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _say(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()
    except OSError:  # nobody can be told
        _drop(sys.stderr)


def _complain(error: SleeperError, code: int) -> int:
    show_for(error, "sleeper")
    if isinstance(error, ConfirmationNeeded) and error.plan is not None:
        _print(repr(error.plan))
    _say(f"{type(error).__name__}: {error}")
    return code
