import json
import re
import tomllib
from pathlib import Path

import yaml

import sleeper_nb

ROOT = Path(__file__).parents[2]


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


def test_the_package_has_the_only_version_number():
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in configuration["project"]
    assert configuration["project"]["dynamic"] == ["version"]
    source = (ROOT / configuration["tool"]["hatch"]["version"]["path"]).read_text()
    assert re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE) == [sleeper_nb.__version__]


def test_the_changelog_begins_with_the_present_version():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(sleeper_nb.__version__)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", headings[0])


def test_the_license_is_the_one_that_pyproject_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_package_has_code_and_no_documents():
    assert [path.name for folder in ("sleeper_nb", "magics") for path in (ROOT / folder).rglob("*.md")] == []


def test_kept_warehouses_are_in_no_package():
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["packages"] == ["sleeper_nb", "magics"]
    assert all((ROOT / place).exists() for place in targets["wheel"]["force-include"])
    assert "tests/data" in targets["sdist"]["exclude"]


def test_the_front_end_is_in_the_wheel_and_its_sources_are_not():
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert not [place for place in targets["wheel"]["force-include"] if place.startswith("frontend")]
    build = (ROOT / "frontend" / "build.mjs").read_text()
    assert 'new URL("../sleeper_nb/widgets/static/", import.meta.url)' in build
    ignored = (ROOT / ".gitignore").read_text().split()
    assert "node_modules/" in ignored
    # hatchling leaves out what git ignores
    assert not [line for line in ignored if "static" in line or line.endswith((".js", ".css"))]


def test_packages_of_the_front_end_are_pinned_and_no_registry_is_named():
    package = json.loads((ROOT / "frontend" / "package.json").read_text())
    pinned = package["dependencies"] | package["devDependencies"]
    assert {name: version for name, version in pinned.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)} == {}
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text())["packages"]
    optional = {name for each in lock.values() for name in each.get("optionalDependencies", ())}
    assert {name for name in optional if not any(path.endswith(f"node_modules/{name}") for path in lock)} == set()
    assert [path for path, each in lock.items() if path and ("resolved" in each or "integrity" not in each)] == []
    assert "omit-lockfile-registry-resolved=true" in (ROOT / "frontend" / ".npmrc").read_text()
