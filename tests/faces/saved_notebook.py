"""A notebook that a real kernel runs and saves, as its reader opens it: without that kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient


def saved(folder: Path, *cells: str) -> list[list[dict[str, Any]]]:
    """Run cells in a folder, go on behind one that fails, and return each cell's outputs as the file has them."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, kernel_name="python3", allow_errors=True, resources=resources, timeout=120).execute()
    nbformat.write(notebook, folder / "saved.ipynb")
    return [cell.outputs for cell in nbformat.read(folder / "saved.ipynb", as_version=4).cells]
