"""Notebooks of the project on a bucket and a cluster instead of a folder and this process.

Their code is as it stands, except for the cells that choose the place: the folder of 01 to 03 becomes an address of the
bucket, and the cells of 06 that start servers are left out, as its text says for readers with an account.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parents[2] / "notebooks"
CELL_SECONDS = 300
_SERVERS_OF_06 = ("make_server", 'start("worker.Worker"')


def failures_of(name: str, folder: Path, bucket: str, master: str) -> Iterator[str]:
    """Run a notebook; yield an error, or an answer ``False`` where the notebook compares."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    place = f"s3://{bucket}/{name[:2]}"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _elsewhere(cell.source, place, bucket, master)
    work = folder / name
    work.mkdir()
    settings = [f'warehouse = "{place}"', f"[instances.{_instance_of(place)}]", f'warehouse = "{place}"']
    settings += [f'spark.master = "{master}"', 'spark.executor.memory = "600m"']
    settings += ['spark.driver.host = "127.0.0.1"', f'spark.pyspark.python = "{folder}/python/bin/python"']
    (work / "sleeper.toml").write_text("\n".join(settings) + "\n")
    own = work / "own" / "sleeper_nb"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(f"trusted = {json.dumps([str((work / 'sleeper.toml').absolute())])}\n")
    environment = {**os.environ, "SLEEPER_PROGRESS": "off", "XDG_CONFIG_HOME": str(own.parent.absolute())}
    client = NotebookClient(notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(work)}})
    try:
        client.execute(env=environment)
    except CellExecutionError as error:
        yield str(error)[-1500:]
        return
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("data", {}).get("text/plain", "")
            if text == "False" or text.startswith("(False"):
                yield f"{cell.source.splitlines()[-1]} is {text}"


def _elsewhere(source: str, place: str, bucket: str, master: str) -> str:
    """Return the code of a cell, on the bucket and the cluster."""
    if any(mark in source for mark in _SERVERS_OF_06):
        return _STAND_INS.format(master=master) if "make_server" in source else ""
    source = re.sub(r"^folder = tempfile\.mkdtemp\(.*\)", f'folder = "{place}"', source, flags=re.MULTILINE)
    source = re.sub(r"^(\s*)shutil\.rmtree\(folder.*\)", r"\1pass", source, flags=re.MULTILINE)
    # DynamoDB has one instance of each name, whatever its bucket
    source = source.replace("%sleeper use $folder", f"%sleeper use $folder --instance {_instance_of(place)}")
    return source.replace("flights-of-2013", bucket)


def _instance_of(place: str) -> str:
    return f"notebook-{place.rpartition('/')[2]}"


_STAND_INS = """\
import atexit, shutil, socket, subprocess
from pathlib import Path
from types import SimpleNamespace

import boto3

aws, cluster, master = SimpleNamespace(shutdown=lambda: None), [], "{master}"
"""
