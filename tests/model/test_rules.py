"""Defaults, CHECKs, comments and unique keys of a schema: said in DDL, Python and JSON alike, exact, or refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.evolution import RenameColumn, SetComment, SetDefault, broken_promises, evolved
from sleeper_nb.model.schema import Check, Field, Schema, constant_of_literal, parse_field, parse_type

DDL = """
city STRING KEY COMMENT 'where, from -- or ''to'''   -- a note
pickup TIMESTAMP SORT, fare DOUBLE NULL DEFAULT 0 COMMENT 'in dollars'
n decimal(10,2) DEFAULT 1.50 NOT NULL, m map<string,decimal(3,1)> null
day date null default DATE '2026-01-31', raw bytearray null default X'00ff', t string default 'it''s, x'
CHECK (fare >= 0 AND fare < 5 OR t IN ('a)', 'b -- c')), CONSTRAINT not_three CHECK (n <> 3)
UNIQUE KEYS, COMMENT 'Taxi trips'
"""


def test_ddl_python_and_json_say_the_same():
    of_ddl = Schema.from_ddl(DDL)
    of_python = sl.Schema(
        [Field("city", parse_type("string"), comment="where, from -- or 'to'")],
        {"pickup": "timestamp"},
        {
            "fare": {"type": "double?", "default": 0, "comment": "in dollars"},
            "n": {"type": "decimal(10,2)", "default": Decimal("1.5")},
            "m": "map<string,decimal(3,1)>?",
            "day": {"type": "date?", "default": date(2026, 1, 31)},
            "raw": {"type": "bytearray?", "default": b"\0\xff"},
            "t": {"type": "string", "default": "it's, x"},
        },
        checks={"check_1": "fare >= 0 AND fare < 5 OR t IN ('a)', 'b -- c')", "not_three": "n <> 3"},
        comment="Taxi trips",
        unique_keys=True,
    )
    assert of_ddl == of_python == Schema.from_json(of_ddl.to_json()) == sl.Schema(**of_python.to_dict())
    assert "Taxi trips" in repr(of_ddl)
    assert "in dollars" in repr(of_ddl)
    lines = [
        f"{f.name} {f.definition}{' KEY' if f.name == 'city' else ''}" for f in of_ddl.fields if f.name != "pickup"
    ]
    again = Schema.from_ddl("\n".join(lines))
    assert [(f.name, f.default, f.comment) for f in again.values] == [
        (f.name, f.default, f.comment) for f in of_ddl.values
    ]


def test_a_schema_without_rules_has_no_member_for_them():
    plain = sl.Schema({"id": "string"}, {}, {"n": "int?"})
    assert json.loads(plain.to_json()) == {
        "rowKeyFields": [{"name": "id", "type": "StringType"}],
        "sortKeyFields": [],
        "valueFields": [{"name": "n", "type": "IntType", "nullable": True}],
    }
    assert repr(plain).splitlines()[0].split() == ["field", "role", "type", "nullable"]


def test_columns_may_be_called_as_the_words_of_rules():
    names = ("check", "unique", "constraint", "comment", "keys")
    assert Schema.from_ddl("check STRING KEY, unique int, constraint int, comment string, keys int").names == names


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("a STRING KEY, b INT DEFAULT 1.5", "default of column 'b': no int is exactly '1.5'"),
        ("a STRING KEY, b INT DEFAULT 2147483648", "no int is exactly"),
        ("a STRING KEY, b FLOAT DEFAULT 16777217", "no float is exactly"),
        ("a STRING KEY, b DECIMAL(3,1) DEFAULT 1.25", "no decimal"),
        ("a STRING KEY, b DATE DEFAULT '2026-02-30'", "no date is exactly"),
        ("a STRING KEY, b STRING DEFAULT 5", "write it in quotes"),
        ("a STRING KEY, b BYTEARRAY DEFAULT 'x'", "write X'00ff'"),
        ("a STRING KEY, b LIST<INT> DEFAULT 1", "cannot have a default"),
        ("a STRING KEY DEFAULT 'x'", "row key 'a' cannot have a default"),
        ("a STRING KEY, b TIMESTAMP SORT DEFAULT '2026-01-01'", "sort key 'b' cannot have a default"),
        ("a STRING KEY, b INT NULL NULL", "line 1: cannot read 'b INT NULL NULL'"),
        ("a STRING KEY, b INT DEFAULT 1 DEFAULT 2", "write DEFAULT once"),
        ("a STRING KEY, b INT DEFAULT", "line 1: cannot read"),
        ("a STRING KEY, b INT DEFAULT now()", "cannot read"),
        ("a STRING KEY, CHECK (a > 'x'", "line 1: a bracket or quote is not closed"),
        ("a STRING KEY, b INT COMMENT 'x", "line 1: a bracket or quote is not closed"),
        ("a STRING KEY, CHECK ()", "has no condition"),
        ("a STRING KEY, CONSTRAINT x CHECK (a > 'b'), CONSTRAINT X CHECK (a > 'c')", "check 'X' occurs twice"),
        ("a STRING KEY, CONSTRAINT 5x CHECK (a > 'b')", "not a valid name of a check"),
    ],
)
def test_what_cannot_be_kept_is_refused(ddl, words):
    with pytest.raises(InvalidInput) as caught:
        Schema.from_ddl(ddl)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 1.0), ("int", True), ("boolean", 1), ("string", 5), ("date", datetime(2026, 1, 1, tzinfo=UTC)),
     ("timestamp", date(2026, 1, 1)), ("double", float("nan")), ("decimal(3,1)", 0.25), ("bytearray", "zz"),
     ("string", "\ud800"), ("int", [1]), ("long", 2**63)],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(kind, value):
    with pytest.raises(InvalidInput, match="default of column 'v': no "):
        Field("v", parse_type(kind), default=value)


def test_wrong_rules_in_python_are_refused():
    for wrong, words in (
        ({"checks": {"a": 5}}, "a check cannot be made of"),
        ({"checks": ["fare > 0"]}, "check"),
        ({"checks": {"a": " "}}, "has no condition"),
        ({"comment": 5}, "comment"),
        ({"unique_keys": "yes"}, "unique_keys"),
    ):
        with pytest.raises((InvalidInput, TypeError), match=words):
            sl.Schema({"id": "string"}, **wrong)
    with pytest.raises(NotFound, match=r"no member 'defalt'.*\n.*default"):
        sl.Schema({"id": "string"}, {}, {"n": {"type": "int", "defalt": 1}})
    with pytest.raises(InvalidInput, match="not the JSON of a schema"):
        Schema.from_json('{"rowKeyFields": [{"name": "a", "type": "IntType"}], "checks": [{"name": "x"}]}')


CONSTANTS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "boolean": st.booleans(),
    "string": st.text(st.characters(codec="utf-8")),
    "bytearray": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "decimal(9,4)": st.decimals(-99999, 99999, places=4, allow_nan=False),
}


@given(st.data())
def test_a_constant_is_the_same_after_json_and_ddl(data: st.DataObject):
    kind = data.draw(st.sampled_from(sorted(CONSTANTS)))
    value = data.draw(CONSTANTS[kind])
    comment = data.draw(st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]))))
    field = Field("v", parse_type(kind), default=value, comment=comment)
    assert field.default == value
    schema = sl.Schema({"id": "string"}, {}, [field])
    assert Schema.from_json(schema.to_json()) == schema == sl.Schema(**schema.to_dict())
    if isinstance(value, str) and value.splitlines() != [value]:
        return  # a line of DDL has no end of a line in it
    assert parse_field(f"v {field.definition}") == field


def test_literals_of_sql():
    assert constant_of_literal("NULL", parse_type("int")) is None
    assert constant_of_literal("'5'", parse_type("int")) == 5
    assert constant_of_literal("-1e3", parse_type("double")) == -1000.0
    assert constant_of_literal("TIMESTAMP '2026-01-31 12:00:00+02:00'", parse_type("timestamp")) == datetime(
        2026, 1, 31, 10, tzinfo=UTC
    )


def test_a_rename_keeps_default_and_comment():
    before = Schema.from_ddl("id STRING KEY, fare DOUBLE DEFAULT 1 COMMENT 'dollars'")
    after = evolved(before, [RenameColumn("fare", "price"), SetComment("id", "who"), SetDefault("price", 2)], 2)
    assert [(f.name, f.column, f.default, f.comment) for f in after.fields] == [
        ("id", "id", None, "who"), ("price", "fare", 2.0, "dollars"),
    ]  # fmt: skip


def test_promises_of_rows_follow_the_columns_and_not_only_the_text():
    a, b = (Field(name, parse_type("int")) for name in "ab")
    check = [Check("x", "a > 0")]
    then = Schema({"id": "string"}, {}, [a, b], checks=check)
    assert broken_promises(then, then) == ()
    swapped = Schema(
        {"id": "string"}, {}, [Field("a", a.type, stored="b"), Field("b", a.type, stored="a")], checks=check
    )
    assert broken_promises(then, swapped) == ("check 'x'",)
    unique = Schema({"id": "string"}, {}, [a, b], checks=check, unique_keys=True)
    assert broken_promises(then, unique) == ("unique keys",)
    assert broken_promises(unique, then) == ()
