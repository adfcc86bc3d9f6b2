"""The few texts that make a column of CSV files one of texts, and what to do about them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.load import load_options
from sleeper_nb.errors import hint_text

NUMBERS = [str(n) for n in range(1, 30)]


@pytest.fixture
def session(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        yield session


def written(tmp_path: Path, texts: list[str], name: str = "x.csv") -> str:
    (tmp_path / name).write_text("k,x\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    return str(tmp_path / name)


ODD = {
    "one": ([*NUMBERS, "n/a"], "long", ("n/a",)),
    "several, in their order": (["-", *NUMBERS, "n/a", *NUMBERS, "?"], "long", ("-", "n/a", "?")),
    "the type with the fewest": ([*NUMBERS, "1.5", "2.5", "n/a"], "double", ("n/a",)),
    "a number that is too large": ([*NUMBERS, "9" * 30], "long", ("9" * 30,)),
    "no day": ([*(f"2026-01-{n:02d}" for n in range(1, 20)), "0000-00-00"], "date", ("0000-00-00",)),
    "no day of its month": ([*(f"2026-01-{n:02d} 10:00" for n in range(1, 20)), "2026-02-30"], "timestamp",
                            ("2026-02-30",)),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_a_few_texts_of_no_type_are_named(session, tmp_path, case: str):
    texts, kind, odd = ODD[case]
    (found,) = session.admin.plan_table("t", written(tmp_path, texts), row_keys=["k"]).odd_texts
    assert (found.type.name, found.texts) == (kind, odd)


def test_the_created_table_names_them_below(session, tmp_path):
    path = written(tmp_path, [*NUMBERS, "n/a"])
    line = (
        "column x is read as text because of 'n/a'; every other value is a long. "
        "To load it as NULL: null_text=['', 'n/a']"
    )
    made = session.create_table("t", path, row_keys=["k"])
    assert repr(made).endswith(f"\n{line}")
    on_page = session.admin.plan_table("u", path, row_keys=["k"])._repr_html_().replace("&#x27;", "'")
    assert line[1:] in on_page  # where it begins as a sentence does
    assert "read as text" not in repr(session.table("t"))
    assert "read as text" not in repr(session.create_table("v", path, row_keys=["k"], types={"x": "string"}))


def test_a_key_cannot_be_null(session, tmp_path):
    path = written(tmp_path, [*NUMBERS, "n/a"])
    plan = session.admin.plan_table("t", path, row_keys=["x"])
    assert repr(plan).endswith("Keys cannot be null: correct the data, or keep the column as text")
    assert "null_text" in repr(session.admin.plan_table("t", path, row_keys=["k"]))


def test_those_of_several_files_are_named(session, tmp_path):
    written(tmp_path, [*NUMBERS, "n/a"], "p1.csv")
    written(tmp_path, ["1", "n/a", "2"], "p2.csv")
    (odd,) = session.admin.plan_table("u", str(tmp_path / "p*.csv"), row_keys=["k"]).odd_texts
    assert odd.texts == ("n/a",)


@pytest.mark.parametrize("text", ["n/a", "--", "-", "-N", "not known", "?", "it's"])
def test_the_option_that_is_proposed_can_be_typed(session, tmp_path, text: str):
    (odd,) = session.admin.plan_table("t", written(tmp_path, [*NUMBERS, text]), row_keys=["k"]).odd_texts
    line = f"create t --from x.csv --keys k {hint_text(odd.hint, '%sleeper').removeprefix('To load it as NULL: ')}"
    for parsed in (COMMANDS.parse_line(line), COMMANDS.parse_argv(shlex.split(line))):
        assert load_options(parsed.arguments)["null_text"] == ["", text]


def test_no_option_is_proposed_for_a_text_that_it_cannot_have(session, tmp_path):
    (odd,) = session.admin.plan_table("t", written(tmp_path, [*NUMBERS, '"a,b"']), row_keys=["k"]).odd_texts
    assert odd.hint == ("Correct the data, or keep the column as text",)
