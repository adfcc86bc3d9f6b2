"""What a hint says to type can be typed, and means what the user meant: each case is a line as a newcomer types it."""

from __future__ import annotations

import pytest

from sleeper_nb.errors import SleeperError

TABLES = (
    "%sleeper use ./warehouse",
    "%%sleeper create trips\ncity STRING KEY\nfare LONG NULL\nprice DOUBLE NULL",
    "%sleeper ingest trips $rows",
    "%sleeper create-savepoint trips --name half-year",
    "%%sleeper create words\nid STRING KEY\nwhen LONG NULL\nselect LONG NULL",
)


@pytest.fixture
def typed(cell, shell):
    """Types a line in a warehouse with two tables."""
    shell.push({"rows": [{"city": "lima", "fare": 1, "price": 1.5}]})
    for source in TABLES:
        cell(source)
    return cell


def refused(typed, line):
    with pytest.raises(SleeperError) as caught:
        typed(line)
    return caught.value


LINES = [
    ("scan trips --where city='lima'", "if lima is a text, write it in quotes: --where \"city = 'lima'\""),
    ("scan trips --where fare>lima", "if lima is a text, write it in quotes: --where \"fare > 'lima'\""),
    ("scan trips --where city=fair", "did you mean 'fare'?"),
    ("history trips -n ten", "did you mean '--limit'?"),
    ("scan trips -w fare>1", "did you mean '--where'?"),
    ("scan trips -x", "usage: scan"),
    ("jobs --state", "usage: jobs"),
    ("sql --engine duckdb SELECT :nosuch",
     ":nosuch takes the value of the notebook's variable nosuch (in Python: params={'nosuch': …})"),
    ("sql --engine duckdb SELECT :row", "did you mean 'rows'?"),
    ("sql --engine duckdb SELECT city FROM trips VERSION AS OF 'half-year'",
     "write 12, 'snapshot.12', 'savepoint.3' or 'savepoint.half-year' for the savepoint of that name"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "hint"), LINES)
def test_the_hint_says_what_to_type(typed, line, hint):
    assert refused(typed, f"%sleeper {line}").hint.startswith(hint)


INSTEAD = [
    "scan trips --where \"city = 'lima'\"",
    "history trips --limit 10",
    "scan trips --where fare>1",
    "sql --engine duckdb SELECT :name",
    "sql --engine duckdb SELECT city FROM trips VERSION AS OF 'savepoint.half-year'",
]


@pytest.mark.parametrize("line", INSTEAD)
def test_what_the_hints_say_can_be_typed(typed, shell, line):
    shell.push({"name": "lima"})
    assert typed(f"%sleeper {line}") is not None


@pytest.mark.parametrize("name", ['"Order ID"', "`Order ID`", "[Order ID]", "'Order ID'"])
def test_a_quoted_name_of_a_new_column_is_written_without_quotes(typed, name):
    error = refused(typed, f"%%sleeper create orders\n{name} LONG KEY")
    assert error.hint == "write Order_ID LONG KEY: a name has no quotes, only letters, digits and _"
    assert typed("%%sleeper create orders\nOrder_ID LONG KEY").schema.names == ("Order_ID",)
