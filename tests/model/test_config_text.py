"""Text of ``.properties`` files, held against Java's own reader."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.config_text import changed, entries, line_of

HARD = """# a comment = of no use \\
! another: one\r
\ta.b = 1\r\n\n  c:2\t
d 3
e\\ f\\=\\:g = h = i : j
k=one, \\
   # two, \\\r
\\  three
l=\\u00e9\\u4E2D\\uD83D\\uDE00 \\t\\x\\\\
m = \\ lead
n=
o:=p
a.b=last\\\\\\\nline
"""
KEYS = st.text(min_size=1, max_size=8)
VALUES = st.text(max_size=12)


def read(content):
    return {entry.name: entry.value for entry in entries(content)}


def test_all_that_java_writes_is_read():
    assert read(HARD) == {
        "a.b": "last\\line", "c": "2", "d": "3", "e f=:g": "h = i : j", "k": "one, # two,   three",
        "l": "é中😀 \tx\\", "m": " lead", "n": "", "o": "=p",
    }  # fmt: skip


@pytest.mark.spark
def test_java_reads_the_same(spark_engine):
    jvm = spark_engine.session()._jvm

    def by_java(content):
        found = jvm.java.util.Properties()
        found.load(jvm.java.io.StringReader(content))
        return {name: found.getProperty(name) for name in found.stringPropertyNames()}

    assert by_java(HARD) == {name: value + "\t" * (name == "c") for name, value in read(HARD).items()}
    mine = {"key with: = # ! \\": " é\t中😀 \\ ", "#": "# no comment ", "plain": "a=b:c", "blank": " "}
    assert by_java("".join(f"{line_of(name, value)}\n" for name, value in mine.items())) == mine


@given(st.dictionaries(KEYS, VALUES, max_size=4))
@example({"a": " ", "b": "  ", "c": " \\ ", "d": "\\", " ": "\t"})
def test_what_is_written_is_read_and_is_ascii(values):
    content = "".join(f"{line_of(name, value)}\n" for name, value in values.items())
    assert content.isascii()
    assert read(content) == values
    assert [entry.line for entry in entries(content)] == list(range(1, len(values) + 1))


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.dictionaries(KEYS, st.none() | VALUES, max_size=4))
def test_a_change_is_one_of_the_values_and_of_nothing_else(before, changes):
    lines = ["# at the top", ""]
    for name, value in before.items():
        lines += [line_of(name, value), "! between"]
    after = changed("\n".join([*lines, ""]), changes)
    wanted = {**before, **changes}
    assert read(after) == {name: value for name, value in wanted.items() if value is not None}
    stay = [line for line in lines if not any(line == line_of(n, v) and n in changes for n, v in before.items())]
    rest = iter(after.splitlines())
    assert all(line in rest for line in stay)
    assert changed(after, changes) == after


def test_a_change_keeps_comments_order_and_line_ends():
    before = "# one\r\nb : 2 \r\n\r\na=1\\\r\n  2\r\n! last"
    assert changed(before, {"b": "2"}) == before + "\r\n"
    assert changed(before, {"a": "3", "c": "é"}) == "# one\r\nb : 2 \r\n\r\na=3\r\n! last\r\nc=\\u00E9\r\n"
    assert changed(before, {"a": None, "d": None}) == "# one\r\nb : 2 \r\n\r\n! last\r\n"
    assert changed("a=1\na=2\n", {"a": "3"}) == "a=1\na=3\n"
    assert changed("a=1\nb=\na=2\n", {"a": None}) == "b=\n"


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        ("# one\nname\n", 2, "'name'"),
        ("a=1\\\n2\n\n=3\n", 4, "'=3'"),
        ("a=\\u12\n", 1, "is not a character"),
        ("a=\\uD83D\n", 1, "half of a character"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(content, line, said):
    with pytest.raises(InvalidInput, match=f"line {line} of f.properties .*{said}") as error:
        list(entries(content, "f.properties"))
    assert error.value.hint
