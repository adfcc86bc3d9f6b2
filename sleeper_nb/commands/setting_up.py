"""`autoload`, `completion` and `doctor`: what a user sets up once on a machine, and whether all is there."""

from __future__ import annotations

import os
import warnings
from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.commands.command import AWS, command, flag, given_aws, option, positional
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.home import find_home
from sleeper_nb.errors import AlreadyExists, StorageError
from sleeper_nb.report import Answer, Grid, Report

if TYPE_CHECKING:
    from sleeper_nb.session.diagnosis import DoctorReport

STARTUP_FILE = "50-sleeper-autoload.py"
STARTUP_LINES = """\
# %sleeper without %load_ext: "sleeper autoload on" wrote this file, and "sleeper autoload off" deletes it.
get_ipython().magics_manager.register_lazy("sleeper", "sleeper_nb")
# The first Tab after it loads the extension too, and the next one completes.
get_ipython().set_hook(
    "complete_command",
    lambda shell, _: shell.extension_manager.load_extension("sleeper_nb") and [],
    re_key="%%?sleeper",
)
"""


@dataclass(frozen=True, slots=True, repr=False)
class Autoload(Report):
    """Whether IPython loads ``%sleeper`` by itself, and by which file of the user's profile."""

    is_on: bool
    file: Path
    note: str

    def grid(self) -> Grid:
        rows = (("autoload", "on" if self.is_on else "off"), ("file", str(self.file)))
        return Grid(("", ""), rows, footer=self.note)

    def to_dict(self) -> dict[str, Any]:
        return {"autoload": self.is_on, "file": str(self.file)}


@command(
    "autoload",
    "make %sleeper work in every notebook, without %load_ext",
    positional("state", "on writes a startup file into your IPython profile, off deletes it; on if not given",
               choices=("on", "off", "status"), default="on", optional=True),
    examples=("autoload", "autoload status", "autoload off"),
    words=("load-ext", "startup"),
    warehouse="none",
)  # fmt: skip
def autoload(context: Context, arguments: Namespace) -> Autoload:
    file = _startup_folder() / STARTUP_FILE
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else None
        if text not in {None, STARTUP_LINES} and arguments.state != "status":
            raise AlreadyExists(
                f"{file} has other lines than autoload writes, so it may be yours",
                hint=f"rename or delete it yourself, then {context.prefix} autoload {arguments.state}",
            )
        if arguments.state == "on" and text is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as new:
                new.write(STARTUP_LINES)
        elif arguments.state == "off" and text is not None:
            file.unlink()
    except OSError as error:
        problem = f"cannot change {file}: {error.strerror}"
        raise StorageError(problem, hint="check the permissions of the folder") from error
    is_on = arguments.state == "on" or (arguments.state == "status" and text == STARTUP_LINES)
    return Autoload(is_on, file, _note(context.prefix, arguments.state, text))


def _note(prefix: str, state: str, before: str | None) -> str:
    if state == "off":
        return "there was no such file" if before is None else "deleted the file: write %load_ext sleeper_nb again"
    if before not in {None, STARTUP_LINES}:
        return "the file has other lines than autoload writes"
    if state == "status" and before is None:
        return f"there is no such file; to write it: {prefix} autoload on"
    done = "wrote the file" if before is None else "the file is there"
    return f"{done}: each kernel of this profile that starts from now on has %sleeper; to undo: {prefix} autoload off"


def _startup_folder() -> Path:
    from IPython import get_ipython
    from IPython.paths import get_ipython_dir

    shell = get_ipython()
    if shell is not None:
        return Path(shell.profile_dir.startup_dir)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # it would go on with a temporary folder
        try:
            return Path(get_ipython_dir()) / "profile_default" / "startup"
        except UserWarning as warning:
            raise StorageError(str(warning).rstrip("."), hint="check the folder, or IPYTHONDIR") from warning


@command(
    "completion",
    "print the script for Tab in a shell: it offers commands, tables and columns",
    positional(
        "shell",
        'which reads it: write eval "$(sleeper completion bash)" into ~/.bashrc; the same with zsh into ~/.zshrc, '
        "after compinit; or sleeper completion fish | source into config.fish",
        choices=("bash", "zsh", "fish"),
    ),
    examples=("completion bash", "completion zsh", "completion fish"),
    words=("tab", "autocomplete", "complete"),
    reads_only=True,
    warehouse="none",
)
def completion(_context: Context, arguments: Namespace) -> Answer:
    from sleeper_nb.commands.shell_completion import SCRIPTS

    return Answer(Grid((), (), footer=SCRIPTS[arguments.shell].removesuffix("\n")))


@command(
    "doctor",
    "check Java, Spark, packages, clocks and AWS; each check with its fix",
    positional("uri", "a warehouse; the open one, or that of the settings, if not given", "path", metavar="URI",
               optional=True),
    option("--instance", text="which of its instances; the open one, or default if not given", metavar="I"),
    *AWS,
    flag("--cluster", "look at Spark's workers too, by a small task; Spark is started for it"),
    flag("--json", "show the answer as JSON; a console ends with 1 when anything failed"),
    examples=("doctor", "doctor --json", "doctor s3://bucket/prefix --instance prod --profile analytics"),
    words=("check-up", "health", "diagnose", "permissions"),
    reads_only=True,
    warehouse="none",
)  # fmt: skip
def look_at_all(context: Context, arguments: Namespace) -> DoctorReport:
    from sleeper_nb.session.diagnosis import doctor

    aws = given_aws(arguments)
    uri = arguments.uri or vars(arguments).get("warehouse")  # an option of every command on the console
    session = context.opened() if context.is_open and uri is None and not aws else None
    if session is not None and arguments.instance in {None, session.instance}:
        report: DoctorReport = session.doctor(cluster=arguments.cluster)
    else:
        instance = arguments.instance or "default"
        if session is not None:  # another instance of the open warehouse
            uri, aws = session.warehouse.location, {**aws, **session.warehouse.aws}
        home = find_home(instance, uri, os.environ, Path.cwd()).with_aws(aws)
        report = doctor(
            home.warehouse,
            instance,
            **home.aws,
            spark_config=home.spark,
            cluster=arguments.cluster,
            progress=context.progress,
        )
    return replace(report, as_json=arguments.json)
