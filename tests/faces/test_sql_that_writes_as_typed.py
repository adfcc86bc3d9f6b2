"""Statements that change the warehouse, typed after ``%sleeper sql``: answers, confirmation, and options that read."""

from __future__ import annotations

import pandas as pd
import pytest

import sleeper_nb as sl


@pytest.fixture
def typed(shell):
    """Run a line or a cell, and return its value."""
    shell.user_ns["df"] = pd.DataFrame({"city": ["rome", "oslo"], "fare": [1, 2]})
    shell.run_line_magic("sleeper", "use warehouse")

    def run(line, cell=None):
        return shell.run_line_magic("sleeper", line) if cell is None else shell.run_cell_magic("sleeper", line, cell)

    return run


def test_a_table_is_made_and_filled_in_three_cells(typed, shell):
    typed("sql", "CREATE TABLE trips\n  ROW KEYS (city)\n  SPLITS ('p')\nAS SELECT * FROM df -- mine")
    shell.user_ns["least"] = 2
    made = typed("sql INSERT INTO trips SELECT city, fare + 10 FROM df WHERE fare >= :least")
    assert "trips           1         2     3" in repr(made)
    assert typed("sql --as pandas SELECT sum(fare) AS n FROM trips")["n"].tolist() == [15]
    assert "would add 3 rows" in repr(typed("sql --dry-run INSERT INTO trips FROM trips"))
    assert typed("sql SELECT count(*) AS n FROM trips").to_dict() == {"n": [3]}


def test_a_deletion_shows_its_plan_and_the_line_that_confirms_it(typed):
    typed("sql", "CREATE TABLE trips ROW KEYS (city) AS FROM df")
    for statement in ("TRUNCATE TABLE trips", "DROP TABLE trips"):
        plan = typed("sql", statement)
        assert f"%sleeper sql --force {statement} does it" in repr(plan)
        assert typed("sql SELECT count(*) AS n FROM trips").to_dict() == {"n": [2]}
    typed("sql --force TRUNCATE TABLE trips")
    assert typed("sql SELECT count(*) AS n FROM trips").to_dict() == {"n": [0]}
    typed("sql --force DROP TABLE trips")
    assert len(typed("tables")) == 0


@pytest.mark.parametrize("option", ["--as pandas", "--plot bar", "--interactive", "--explain"])
def test_an_option_for_rows_is_refused_before_anything_is_changed(typed, option):
    typed("sql", "CREATE TABLE trips ROW KEYS (city) AS FROM df")
    with pytest.raises(sl.InvalidInput, match=f"{option} is for queries, and the statement changes the warehouse"):
        typed(f"sql {option} INSERT INTO trips FROM df")
    assert typed("sql SELECT count(*) AS n FROM trips").to_dict() == {"n": [2]}


def test_a_truncation_says_what_it_loses_and_what_keeps_it(typed):
    typed("sql", "CREATE TABLE trips ROW KEYS (city) AS FROM df")
    typed("sql INSERT INTO trips FROM df")
    plan = repr(typed("sql TRUNCATE trips"))
    assert "2: can no longer be read; to keep them: %sleeper delete trips --force" in plan
    typed("create-savepoint trips --name kept")
    assert "can no longer be read (savepoints can)" in repr(typed("sql TRUNCATE trips"))
    typed("delete trips --force")
    assert len(typed("history trips")) == 3


def test_the_answer_can_be_kept(typed, shell):
    typed("sql -o made CREATE TABLE trips ROW KEYS (city) AS FROM df")
    assert shell.user_ns["made"].rows == 2
    assert "CALL sys.compact(table" in repr(typed("sql CALL sys.help()"))
    assert typed("sql CALL sys.create_savepoint('trips', 'first')").name == "first"
