"""Makes again what is made from the code: ``python -m docs.regenerate [NAME ...]``, all of it without a name.

A test fails when one of these files no longer agrees with the code, and names this command. Look at the difference
before you commit it: it is what users will see.

| name | file |
|---|---|
| reference | ``docs/reference.md``: commands, properties, casts |
| costs | ``docs/costs.md``: requests to S3 and DynamoDB |
| notebooks, or the name of one | the outputs of ``notebooks/*.ipynb`` |

``docs/sizing.md`` is not made here: its figures are measured, alone on a machine, by ``python -m benchmarks.sizing``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
MODULES = {"reference": ("docs.reference_page",), "costs": ("benchmarks.request_costs", "--write")}
CELL_SECONDS = 600


def run_notebook(path: Path) -> None:
    """Run all cells of a notebook in a new kernel, in the notebook's folder, and write it with their outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)  # pictures stay; a widget lives as long as its kernel
    NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    nbformat.write(notebook, path)


def main(argv: list[str] | None = None) -> int:
    """Make what is named, or everything; return the exit code."""
    known = [*MODULES, "notebooks", *NOTEBOOKS]
    options = argparse.ArgumentParser(
        prog="python -m docs.regenerate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    names = options.parse_args(argv).names or [*MODULES, "notebooks"]
    if unknown := [name for name in names if name not in known]:
        options.error(f"there is no {', '.join(unknown)}; known are {', '.join(known)}")
    os.environ["SLEEPER_PROGRESS"] = "off"  # no lines that another run would not have
    for name in names:
        print(f"{name} ...", flush=True)
        if name in MODULES:
            subprocess.run([sys.executable, "-m", *MODULES[name]], cwd=ROOT, check=True)  # noqa: S603 - our own modules
        for stem, path in NOTEBOOKS.items():
            if name in {"notebooks", stem}:
                run_notebook(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
