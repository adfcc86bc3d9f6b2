"""Conditions and values that are typed wrong: each error says what to type, and names nothing that was not typed."""

from __future__ import annotations

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, SleeperError, hint_text

TEXT = "a text goes in single quotes: '{}'"


@pytest.fixture
def hint_of(cell, shell):
    """Type what stands behind the magic, and return the hint of its error."""
    shell.user_ns["df"] = pd.DataFrame({"id": [1, 2], "city": ["a", "b"], "amount": [1.0, 2.0], "select": ["a", "b"]})
    cell("%sleeper use ./warehouse")
    cell("%sleeper create t --from $df --keys id")

    def typed(line):
        with pytest.raises(SleeperError) as caught:
            cell(f"%sleeper {line}")
        return hint_text(caught.value.hint_parts, "%sleeper")

    return typed


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("delete t --where city=a", TEXT.format("a")),
        ("delete t --where 'city = \"position\"'", TEXT.format("position")),
        ("update t --set city=hello --where id=1", TEXT.format("hello")),
        ("scan t --keys 1", "write %sleeper scan T KEY"),
        ('sql DELETE FROM t WHERE city = "a"', TEXT.format("a")),
        ('sql SELECT * FROM t WHERE city = "a"', TEXT.format("a")),
        ('sql MERGE INTO t USING df s ON t.id = s.id AND t.city = "row" WHEN MATCHED THEN DELETE', TEXT.format("row")),
        ("delete t --where \"citi = 'a'\"", 'did you mean "city"'),
        ("delete t --where 'id ='", "write the condition to its end, such as n > 5"),
        ("sql DELETE FROM t WHERE id == 3 AND", "write the condition to its end, such as n > 5"),
        ("delete t --where \"select = 'a'\"", 'a column of this name goes in quotes: "select"'),
        (
            "sql MERGE INTO t USING $df s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "a table name is not a value: write it as it is",
        ),
        ("drop-rows t", "did you mean 'delete'?"),
    ],
)
def test_a_hint_says_what_to_type(hint_of, line, hint):
    said = hint_of(line)
    assert hint in said
    assert "sleeper:" not in said


def test_python_names_new_values_and_execute(hint_of):
    with sl.connect("warehouse") as session:
        table = session.table("t")
        with pytest.raises(InvalidInput) as caught:
            table.update({"amount": 1}, "id = 1")
        assert "new_values={'amount': 1}" in caught.value.hint
        with pytest.raises(InvalidInput) as caught:
            table.update({"city": "hello"}, "id = 1")
        assert TEXT.format("hello") in caught.value.hint
        merge = table.merge([{"id": 1, "amount": 5}]).when_matched_update_all()
        assert repr(merge) == (
            "merge into t, not run yet: 1 clause\n  WHEN MATCHED THEN UPDATE id, amount\n"
            ".execute() runs it; .execute(dry_run=True) counts rows"
        )
