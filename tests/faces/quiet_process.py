"""A process that loads the magics, makes a table, fills it and asks it, and tells what else it did.

``python -m tests.faces.quiet_process FOLDER``, with a folder that is empty: it prints, as JSON, every socket, process
and file to write that Python asked for, and the modules that it looked for in vain. No optional package is to be had.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from importlib.abc import MetaPathFinder
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {"pylance": "lance", "import-linter": "importlinter", "tomli-w": "tomli_w"}
BESIDE = {"grpcio": "grpc"}
"""What PySpark can do without, and other magics could not."""
CELLS = (
    "%load_ext sleeper_nb",
    "%sleeper use ./warehouse",
    "%%sleeper create t\nk STRING KEY\nv INT",
    "%sleeper ingest t $rows",
    "%sleeper sql --engine duckdb SELECT k, v FROM t WHERE v < :least",
)


class Missing(MetaPathFinder):
    """An environment without some packages."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.asked: set[str] = set()

    def find_spec(self, fullname, path, target=None):  # noqa: ARG002 - the import system's own signature
        if fullname.partition(".")[0] in self.names:
            self.asked.add(fullname)
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def optional_modules() -> frozenset[str]:
    """Return what to import of the packages that only extras bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {line.strip().partition("[")[0] for extra in project["optional-dependencies"].values() for line in extra}
    packages = {"".join(c if c.isalnum() or c in "-_" else " " for c in name).split()[0] for name in names}
    return frozenset({MODULES.get(name, name) for name in packages - {"sleeper-nb"}} | set(BESIDE.values()))


class Watch:
    """Hears of what Python does with the world outside."""

    def __init__(self) -> None:
        self.sockets: list[str] = []
        self.written: list[str] = []
        self.processes: list[str] = []

    def __call__(self, event, arguments):
        if event.startswith("socket."):
            self.sockets.append(event)
        elif event in {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"}:
            self.processes.append(str(arguments[0]))
        elif event == "os.mkdir" or (event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)):
            self.written.append(str(Path(os.fsdecode(arguments[0])).absolute()))


def main(folder: str) -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    os.chdir(folder)
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.push({"rows": [{"k": "a", "v": 1}, {"k": "b", "v": 5}], "least": 5})
    watch, missing = Watch(), Missing(optional_modules())
    sys.meta_path.insert(0, missing)
    sys.addaudithook(watch)
    with capture_output() as shown:
        for cell in CELLS:
            answer = shell.run_cell(cell)
            answer.raise_error()
        table = answer.result.to_dict()
    # Sockets of libraries that are not written in Python are seen here.
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    told = {
        "table": table,
        "stderr": shown.stderr,
        "sockets": [*watch.sockets, *(link for link in links if link.startswith("socket:"))],
        "written": watch.written,
        "processes": watch.processes,
        "missing": sorted(missing.asked),
        "blocked": sorted(missing.names),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
