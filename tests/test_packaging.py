import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent


def requirements(lines):
    found = {}
    for line in lines:
        name, bounds = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[[^]]*\])?(.*)", line.strip()).groups()
        if name != "sleeper-nb":
            found[name.lower()] = bounds.strip()
    return found


def test_conda_environment_has_the_names_and_versions_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = requirements(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted |= requirements(extra)
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    given = requirements(conda) | requirements(entry for entry in pip if not entry.startswith("--"))
    assert given.pop("python") == project["requires-python"]
    given.pop("pip")
    assert given == wanted


def test_readme_marks_two_commands_of_one_line():
    readme = (ROOT / "README.md").read_text()
    for name in ("run", "test"):
        (block,) = re.findall(rf"<!-- command: {name} -->\n```\w*\n(.*?)```", readme, re.DOTALL)
        assert len(block.strip().splitlines()) == 1


def test_version_is_said_once_for_pip_and_once_for_python_and_they_agree():
    import sleeper_nb

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sleeper_nb.__version__ == project["version"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_kept_warehouses_are_in_no_package():
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["packages"] == ["sleeper_nb", "magics"]
    assert "tests/data" in targets["sdist"]["exclude"]
