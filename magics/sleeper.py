"""``%sleeper`` and ``%%sleeper``: the command table in a notebook."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Enum, Int, default, observe
from traitlets.config import Configurable

from magics.completion import sleeper_matcher
from magics.every_answer import EveryAnswer
from sleeper_nb import __version__, logs
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.help import overview
from sleeper_nb.commands.home import find_home
from sleeper_nb.commands.line_progress import LineProgress
from sleeper_nb.errors import SleeperError, show_for
from sleeper_nb.model.sql_values import DIALECTS
from sleeper_nb.report import MOST_SHOWN, Answer, Display, Grid

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from sleeper_nb.session import Session


def notebook_progress(shell: InteractiveShell, wanted: Callable[[], str]) -> LineProgress:
    """Return progress as one line of the cell's output, which front ends replace when it begins with a return.

    A widget would be lost when the notebook is saved, and ``clear_output`` would take the user's own output with it.
    The variable ``SLEEPER_PROGRESS`` goes before the setting that `wanted` gives: ``auto``, ``text`` or ``off``.
    """

    def is_shown() -> bool:
        setting = os.environ.get("SLEEPER_PROGRESS") or wanted()
        if setting == "auto":
            return hasattr(shell, "kernel") or sys.stdout.isatty()
        return setting == "text"

    return LineProgress(lambda: sys.stdout, is_shown)


NAME = "SleeperMagics"
_STOPPED = "\x1b[31mKeyboardInterrupt\x1b[0m"


@magics_class
class SleeperMagics(Magics, Configurable):  # type: ignore[misc]  # IPython's and traitlets' types are not read
    """Settings of ``%sleeper``, for ``%config SleeperMagics``."""

    engine = Enum(["auto", *DIALECTS], "auto", help="What answers %sleeper sql without --engine; auto chooses.").tag(
        config=True
    )
    dataframes = Bool(
        default_value=True, help="Whether %sleeper sql reads a DataFrame, or another variable with rows: FROM df."
    ).tag(config=True)
    progress = Enum(
        ["auto", "text", "off"],
        "auto",
        help="One line of text while work goes on; auto: where a person watches. SLEEPER_PROGRESS overrides it.",
    ).tag(config=True)
    display_rows = Int(20, min=1, max=MOST_SHOWN, help="How many rows of data an answer shows.").tag(config=True)
    footer = Bool(
        default_value=True,
        help="Whether the line below rows of data says how long they took, which differs from run to run.",
    ).tag(config=True)
    log = Enum(
        [logs.OFF, *logs.LEVELS],
        logs.OFF,
        help="Show log records of the package from this level on, on stderr. SLEEPER_LOG sets the first value.",
    ).tag(config=True)
    traceback = Enum(["short", "full"], "short", help="What an error shows: two lines, or the stack.").tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self._watch = notebook_progress(shell, lambda: self.progress)
        self._opened: list[Session] = []
        self._shown: BaseException | None = getattr(sys, "last_value", None)
        self.context = Context("notebook", self._connect, progress=self._watch)
        self.matcher = sleeper_matcher(self.context)
        self.every_answer = EveryAnswer()

    @default("log")  # type: ignore[untyped-decorator]
    def _log_of_environment(self) -> str:
        return logs.level_of(os.environ)

    @observe("log")  # type: ignore[untyped-decorator]
    def _show_log(self, change: Any) -> None:
        logs.show(change["new"])

    @classmethod
    def install(cls, shell: InteractiveShell) -> None:
        """Register the magics in a shell, unless they are there; `InvalidInput` for a wrong ``SLEEPER_LOG``."""
        if NAME in shell.magics_manager.registry:
            return
        logs.level_of(os.environ)
        magics = cls(shell)
        shell.register_magics(magics)
        atexit.register(magics.close)  # before IPython's own: it keeps the shell alive in a thread, past the last cell
        shell.Completer.custom_matchers.append(magics.matcher)
        shell.ast_transformers.append(magics.every_answer)

    @staticmethod
    def uninstall(shell: InteractiveShell) -> None:
        """Undo `install`, and nothing else."""
        manager = shell.magics_manager
        magics = manager.registry.pop(NAME, None)
        if magics is None:
            return
        for kind in ("line", "cell"):
            if getattr(manager.magics[kind].get("sleeper"), "__self__", None) is magics:
                del manager.magics[kind]["sleeper"]
        # By identity: a matcher or a configurable of others may call itself equal to anything.
        matchers = shell.Completer.custom_matchers
        matchers[:] = [matcher for matcher in matchers if matcher is not magics.matcher]
        shell.ast_transformers[:] = [one for one in shell.ast_transformers if one is not magics.every_answer]
        shell.configurables[:] = [one for one in shell.configurables if one is not magics]
        magics.close()

    def close(self) -> None:
        """Close the warehouses that ``use`` opened, and the Spark session if it was started for one of them.

        Logging is again as ``SLEEPER_LOG`` says.
        """
        atexit.unregister(self.close)
        with contextlib.suppress(SleeperError):
            logs.show(logs.level_of(os.environ))
        self.context.session = self.context.failure = None
        while self._opened:
            with contextlib.suppress(SleeperError):  # one that the user closed already
                self._opened.pop().close()

    @no_var_expand  # type: ignore[untyped-decorator]
    @line_cell_magic  # type: ignore[untyped-decorator]
    def sleeper(self, line: str, cell: str | None = None) -> Any:  # noqa: D102 - its text is made of the table, below
        self.context.engine, self.context.reads_variables = self.engine, self.dataframes
        self.context.display = Display(self.display_rows, self.footer)
        interrupted = "Interrupted. Nothing was changed."
        self.context.variables, self.context.hidden = self.shell.user_ns, self.shell.user_ns_hidden
        self._note_shown_error()
        if line.strip() == "--version":  # as on the console
            return Answer(Grid((), (), footer=f"sleeper-nb {__version__}"))
        try:
            invocation = COMMANDS.parse_line(line, cell)
            interrupted = invocation.interrupted
            return invocation.run(self.context)
        except SleeperError as error:
            self._prepare(error)
            raise
        except Exception as error:
            from sleeper_nb.session import own_error  # heavy, and wanted only here

            known = own_error(error)
            if known is None:
                self.context.failure = error
                raise
            known.__cause__ = error
            self._prepare(known)
            raise known from error
        except KeyboardInterrupt as stop:
            if self.traceback == "short":  # or the stop button would answer with the stack of whatever was under way
                lines = [f"{_STOPPED}: {interrupted}", *getattr(stop, "__notes__", ())]
                vars(stop)["_render_traceback_"] = lambda: lines
            raise
        finally:
            self._watch.finish()

    sleeper.__doc__ = f"Work with tables: %sleeper COMMAND …\n\n{overview(COMMANDS.groups, '%sleeper')!r}\n"

    def _connect(self, uri: str, instance: str, *data_paths: str, new: bool = False, **aws: str) -> Session:
        home = find_home(instance, None, os.environ, Path.cwd()).for_address(uri).with_aws(aws)
        made = home.connect(instance, self._watch, *data_paths, new=new)
        kept = self._kept(made)
        if kept is not made:
            kept.allow(home.iterators, (*home.data_paths, *data_paths))  # sleeper.toml may say more by now
        return kept

    def _kept(self, made: Session) -> Session:
        """Keep a session for the next commands; one that has the same instance open goes before it (decision 99)."""
        self._opened = [session for session in self._opened if not session.closed]
        identity = made.inspect.identity
        for session in self._opened:
            if identity is not None and session.inspect.identity == identity:
                made.close()
                return session
        self._opened.append(made)
        return made

    def _note_shown_error(self) -> None:
        """Keep an error of ours for ``why`` that the shell has shown since the last command: Python raised it."""
        last = getattr(sys, "last_value", None)
        if isinstance(last, SleeperError) and last is not self._shown:
            self.context.failure = last
        self._shown = last

    def _prepare(self, error: SleeperError) -> None:
        """Keep an error for ``why``, with its hint as a line to type, and its traceback if the user wants that."""
        self.context.failure = error
        show_for(error, self.context.prefix)
        if self.traceback == "full":
            shell = self.shell
            vars(error)["_render_traceback_"] = lambda: shell.InteractiveTB.structured_traceback(
                type(error), error, error.__traceback__, tb_offset=1
            )
