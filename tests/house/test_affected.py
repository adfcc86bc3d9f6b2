"""Which test files `python -m tests.affected` chooses for a change, and in which order."""

from __future__ import annotations

from tests.affected import by_distance


def test_tests_of_the_changed_module_come_first():
    chosen = by_distance(["sleeper_nb/maintain/sweep_orphans.py"])
    assert "tests/maintain/test_sweep_orphans.py" in chosen[:25]
    assert "tests/read/test_read_rows.py" not in chosen[:25]


def test_a_folder_without_tests_of_its_own_has_those_of_the_folder_above():
    chosen = by_distance(["sleeper_nb/session/creating.py"])
    assert chosen.index("tests/test_session.py") < chosen.index("tests/widgets/test_explorer.py")


def test_a_file_concerns_the_tests_that_name_it_with_its_folder():
    here, file = "tests/house/test_affected.py", "no_such_file.py"
    assert by_distance(["house/no_such_file.py"])[0] == here
    assert by_distance([f"elsewhere/{file}"])[0] != here


def test_contracts_and_house_tests_are_always_chosen():
    chosen = by_distance(["README.md"])
    assert {"tests/contracts/test_catalog.py", "tests/house/test_affected.py"} <= set(chosen)
