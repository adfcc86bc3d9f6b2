"""The explorer's search over tables: by name, row keys, other columns and comments."""

from __future__ import annotations

import pytest

import sleeper_nb as sl
from sleeper_nb.widgets.explorer import Explorer
from sleeper_nb.widgets.table_search import TableWords
from tests.widgets.conftest import HOSTILE, shown


@pytest.fixture
def explorer(session):
    values = {"dep_delay": "int?", "origin": "string"}
    schema = sl.Schema({"origin_key": "string"}, {"at": "timestamp"}, values, comment="late departures")
    session.create_table("delays", schema).alter(comments={"dep_delay": "in Minutes"})
    return Explorer(session, background=lambda work: work())


def found(explorer, typed):
    explorer._choice.filter.value = ""
    explorer._choice.filter.value = typed
    return dict(explorer._choice.list.options)


@pytest.mark.parametrize(
    ("typed", "labels"),
    [
        ("light", ["flights"]),
        ("DELAY", ["delays"]),
        ("dep_", ["delays · column dep_delay"]),
        ("faa", ["airports · row key faa"]),
        ("row key", []),  # what a text is: no word of it is searched
        ("origin_k", ["delays · row key origin_key"]),
        ("minutes", ["delays · comment in Minutes"]),
        ("departures late", ["delays · comment late departures"]),
        ("delays origin", ["delays · row key origin_key"]),
        ("a", ["airports", "delays", "flights · row key carrier"]),
        ("nothing at all", []),
        ("flights dep_", []),
    ],
)
def test_tables_are_found_by_what_is_written_in_their_schemas(explorer, typed, labels):
    assert list(found(explorer, typed)) == labels


def test_a_table_that_was_found_by_a_column_is_opened_by_its_name(explorer):
    label, value = next(iter(found(explorer, "dep_delay").items()))
    explorer._choice.list.value = value
    assert (label, explorer.table) == ("delays · column dep_delay", "delays")
    assert "delays" in explorer.preview.line


def test_names_are_found_before_the_schemas_are_read_and_columns_after(session):
    waiting = []
    explorer = Explorer(session, background=waiting.append)
    assert list(found(explorer, "fl")) == ["flights"]
    assert list(found(explorer, "faa")) == []
    while waiting:
        waiting.pop()()
    assert list(dict(explorer._choice.list.options)) == ["airports · row key faa"]


def test_new_columns_are_found_by_the_next_search(explorer, session):
    assert found(explorer, "gate") == {}
    session.table("flights").alter({"gate": "string?"})
    assert list(found(explorer, "gate")) == ["flights · column gate"]


def test_a_table_that_cannot_be_read_is_found_by_its_name(explorer, session, tmp_path):
    store = session.table("airports")._store
    for path in tmp_path.rglob("schema-*"):
        if store.table_id in str(path):
            path.write_text("{")
    again = Explorer(sl.connect(tmp_path / "warehouse"), "delays", background=lambda work: work())
    assert list(found(again, "airp")) == ["airports"]
    assert list(found(again, "dep_delay")) == ["delays · column dep_delay"]


def test_hostile_comments_are_shown_as_text(explorer, session):
    session.create_table("odd", sl.Schema({"k": "int"}, comment=HOSTILE))
    explorer.refresh()
    labels = found(explorer, "alert")
    assert list(labels.values()) == ["odd"]
    assert "<script" not in shown(explorer._choice._note)


def test_each_word_is_in_the_name_or_in_a_text():
    words = TableWords((("column", "fare"), ("comment", "in dollars")))
    assert words.reason("trips", ["trips"]) == ""
    assert words.reason("trips", ["trips", "fare"]) == "column fare"
    assert words.reason("trips", ["fare", "dollars"]) == "column fare, comment in dollars"
    assert words.reason("trips", ["fare", "euros"]) is None
