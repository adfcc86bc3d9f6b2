"""What a hint says to type can be typed, and means what the user meant: each case is a line as a newcomer types it."""

from __future__ import annotations

import re

import pandas as pd
import pyarrow as pa
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
    ("scan trips --where city=lima", "if lima is a text, write it in quotes: --where \"city = 'lima'\""),
    ("scan trips --where fare>lima", "if lima is a text, write it in quotes: --where \"fare > 'lima'\""),
    ("scan trips --where city=fair", "did you mean 'fare'?"),
    ("history trips -n ten", "did you mean '--limit'?"),
    ("scan trips -w fare>1", "did you mean '--where'?"),
    ("scan trips -x", "usage: scan"),
    ("expire trips --keep 5",
     "properties say which snapshots stay: %sleeper properties T 'snapshot.time-retained=30 d' snapshot.num-"),
    ("create-savepoint trips before-fix", "write %sleeper create-savepoint T --name NAME"),
    ("jobs --state", "usage: jobs"),
    ("sql --engine duckdb SELECT :nosuch",
     ":nosuch takes the value of the notebook's variable nosuch (in Python: params={'nosuch': …})"),
    ("sql --engine duckdb SELECT when FROM words", 'when is a word of SQL; write the column in quotes: "when"'),
    ("sql --engine duckdb SELECT id, WHEN FROM words", 'when is a word of SQL; write the column in quotes: "when"'),
    ("sql --engine duckdb SELECT select FROM words", 'select is a word of SQL; write the column in quotes: "select"'),
    ("sql --engine duckdb SELECT id FROM words WHERE select > 1", "select is a word of SQL; write the column"),
    ("sql --engine duckdb SELECT :row", "did you mean 'rows'?"),
    ("sql --engine duckdb SELECT city FROM trips VERSION AS OF 'half-yer'", "did you mean 'half-year'?"),
    ("sql --engine duckdb SELECT city FROM trips VERSION AS OF 'nope'", "available: half-year, savepoint.1"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "hint"), LINES)
def test_the_hint_says_what_to_type(typed, line, hint):
    assert refused(typed, f"%sleeper {line}").hint.startswith(hint)


INSTEAD = [
    "scan trips --where \"city = 'lima'\"",
    "history trips --limit 10",
    "scan trips --where fare>1",
    "properties trips 'snapshot.time-retained=30 d' snapshot.num-retained.min=5",
    "create-savepoint trips --name before-fix -m why",
    "sql --engine duckdb SELECT :name",
    'sql --engine duckdb SELECT "when", "select" FROM words WHERE "select" > 1',
    "sql --engine duckdb SELECT city FROM trips VERSION AS OF 'half-year'",
]


@pytest.mark.parametrize("line", INSTEAD)
def test_what_the_hints_say_can_be_typed(typed, shell, line):
    shell.push({"name": "lima"})
    assert typed(f"%sleeper {line}") is not None


@pytest.mark.parametrize("name", ['"Order ID"', "`Order ID`", "[Order ID]", "'Order ID'"])
def test_a_quoted_name_of_a_new_column_is_written_without_quotes(typed, name):
    error = refused(typed, f"%%sleeper create orders\n{name} LONG KEY")
    assert error.hint == "write Order_ID LONG KEY: names have no quotes, only letters, digits and _"
    assert typed("%%sleeper create orders\nOrder_ID LONG KEY").schema.names == ("Order_ID",)


MORE = {
    "rows": [{"city": "oslo", "größe": 1.5}],
    "pandas": pd.DataFrame({"city": ["oslo"], "größe": [1.5]}),
    "arrow": pa.table({"city": ["oslo"], "größe": [1.5]}),
}


@pytest.mark.parametrize("kind", MORE)
def test_a_new_column_is_added_by_the_line_of_the_hint(typed, shell, kind):
    shell.push({"more": MORE[kind]})
    hint = refused(typed, "%sleeper ingest trips $more").hint
    adding = 'or add it: %sleeper alter trips --add-column "größe double?"; the table has'
    assert hint.startswith(f"leave it out with --ignore-extra, {adding}")
    assert hint.partition(";")[0] in repr(typed("%sleeper ingest trips $more --dry-run"))
    typed(re.search("%sleeper[^;]*", hint)[0])
    typed("%sleeper ingest trips $more")


def test_a_new_column_of_a_csv_file_is_added_by_the_line_of_the_hint(typed, tmp_path):
    (tmp_path / "more.csv").write_text("city,driver\noslo,Ada\n", encoding="utf-8")
    hint = refused(typed, "%sleeper ingest trips more.csv").hint
    adding = 'or add it: %sleeper alter trips --add-column "driver string?", or with its'
    assert hint.startswith(f"leave it out with --ignore-extra, {adding}")
    typed(re.search("%sleeper[^,]*", hint)[0])
    typed("%sleeper ingest trips more.csv")


@pytest.mark.parametrize("name", ["größe €", "a.b", "2013"])
def test_a_name_that_no_column_can_have_is_changed_in_the_data(typed, shell, name):
    shell.push({"more": [{"city": "oslo", name: 1.5}]})
    hint = refused(typed, "%sleeper ingest trips $more").hint
    assert hint.startswith("leave it out with --ignore-extra, or rename it: a name is a letter followed by letters")


POINT = "write a decimal point and no thousands separators"
NUMBERS = [
    ("x", "'x' is not a number", "write a number such as 12 or 1.5"),
    ("n/a", "'n/a' is not a number", "write a number such as 12 or 1.5"),
    ("1,5", "'1,5' is not a number", f"{POINT}: 1.5"),
    ("-1.234,5", "'-1.234,5' is not a number", f"{POINT}: -1234.5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "hint"), NUMBERS)
@pytest.mark.parametrize("column", ["fare", "price"])
@pytest.mark.parametrize("kind", ["csv", "rows"])
def test_a_text_that_is_no_number_is_not_to_be_rounded(typed, shell, tmp_path, column, text, problem, hint, kind):
    (tmp_path / "more.csv").write_text(f'city,{column}\noslo,"{text}"\n', encoding="utf-8")
    shell.push({"more": [{"city": "oslo", column: text}]})
    error = refused(typed, f"%sleeper ingest trips {'more.csv' if kind == 'csv' else '$more'}")
    assert problem in error.message
    assert "without loss" not in error.message
    assert error.hint.startswith(hint)


def test_a_number_that_does_not_fit_is_still_to_be_rounded(typed, shell):
    shell.push({"more": [{"city": "oslo", "fare": "1.5"}]})
    error = refused(typed, "%sleeper ingest trips $more")
    assert "'1.5' (string) cannot become long without loss" in error.message
    assert error.hint.startswith("round it first")


SEPARATED = [
    ("city;fare\noslo;2\n", "", "--read delimiter=';'", "';'"),
    ("city;price\noslo;1,5\n", "", "--read delimiter=';'", "';'"),
    ("city\tfare\noslo\t2\n", "", "--read delimiter=tab", "'\\t'"),
    ("city|fare\noslo|2\n", "", "--read delimiter='|'", "'|'"),
    ("oslo;2;1.5\n", "--read header=no", "--read delimiter=';'", "';'"),
]


@pytest.mark.parametrize(("text", "options", "option", "in_python"), SEPARATED)
def test_a_file_with_another_delimiter_is_told_by_the_option(typed, shell, tmp_path, text, options, option, in_python):
    (tmp_path / "more.csv").write_text(text, encoding="utf-8")
    hint = refused(typed, f"%sleeper ingest trips more.csv {options}").hint
    assert hint.endswith(f", add {option}")
    table = shell.find_line_magic("sleeper").__self__.context.table("trips")
    with pytest.raises(SleeperError) as caught:
        table.ingest("more.csv", header=not options)
    assert caught.value.hint.endswith(f", add delimiter={in_python}")
    if "1,5" not in text:
        typed(f"%sleeper ingest trips more.csv {options} {option}")


def test_a_file_that_is_not_utf_8_is_told_by_its_encoding(typed, tmp_path):
    (tmp_path / "more.csv").write_bytes("città,fare\noslo,1\n".encode("latin-1"))
    error = refused(typed, "%sleeper ingest trips more.csv")
    assert error.message.endswith("more.csv: its text is not UTF-8")
    assert error.hint.startswith("say its encoding, such as --read encoding=cp1252 for Western Europe")
    (tmp_path / "more.csv").write_bytes("city,fare\nMálaga,1\n".encode("latin-1"))
    error = refused(typed, "%sleeper ingest trips more.csv")
    assert "column 'city', line 2: the text b'M\\xe1laga' is not UTF-8" in error.message
    assert error.hint.startswith("say its encoding, such as --read encoding=cp1252 for Western Europe")
    typed("%sleeper ingest trips more.csv --read encoding=cp1252")


def test_an_error_of_syntax_elsewhere_is_not_blamed_on_a_column(typed):
    assert refused(typed, "%sleeper sql --engine duckdb SELECT id FROM words WHERE id >").hint is None


@pytest.mark.parametrize("word", ["EXPLAIN", "EXPLAIN ANALYZE"])
def test_the_plan_of_explain_is_shown_line_by_line(typed, word):
    shown = typed(f"%sleeper sql --engine duckdb {word} SELECT city FROM trips")
    assert "\\n" not in repr(shown)
    assert "\\n" not in shown._repr_html_()
    assert len([line for line in repr(shown).splitlines() if "│" in line]) > 2
    assert "<pre>" in shown._repr_html_()


def test_a_column_named_as_in_a_plan_is_no_plan(typed):
    shown = typed("%sleeper sql --engine duckdb SELECT 'x' AS explain_key, 1 AS explain_value")
    assert "explain_key" in repr(shown)
