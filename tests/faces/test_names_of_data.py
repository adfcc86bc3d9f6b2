"""Columns whose names no table can have, as a user loads them: none in a CSV file, spaces, twice the same."""

from __future__ import annotations

import pandas as pd
import pytest

from sleeper_nb.errors import SleeperError

FRAME = pd.DataFrame({"Order_ID": [10, 11, 12], "amount": [1.5, 2.5, 3.5]})
NAMELESS = FRAME.assign(**{"": [0, 1, 2]})


@pytest.fixture
def typed(cell, shell, tmp_path):
    FRAME.to_csv(tmp_path / "simple.csv")
    NAMELESS.to_parquet(tmp_path / "simple.parquet")
    NAMELESS.to_json(tmp_path / "simple.json", orient="records")
    shell.push({"nameless": NAMELESS, "spaced": FRAME.rename(columns={"Order_ID": "Order ID"})})
    cell("%sleeper use ./warehouse")
    return cell


def refused(typed, line):
    with pytest.raises(SleeperError) as caught:
        typed(f"%sleeper {line}")
    return caught.value


SOURCES = ["simple.csv", "$nameless", "simple.parquet", "simple.json"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_column_without_a_name_is_kept_left_out_or_named(typed, source):
    error = refused(typed, f"create t --from {source} --keys Order_ID")
    assert error.message == "a column of the data has no name"
    assert error.hint == 'leave it out with --ignore-extra, call it column with --by-name, or add --columns "=name"'
    assert error.hint in repr(typed(f"%sleeper create t --from {source} --dry-run"))
    assert error.hint in repr(typed(f"%sleeper create t --from {source} --keys Order_ID --dry-run"))

    kept = typed(f"%sleeper create kept --from {source} --keys Order_ID --by-name")
    assert sorted(kept.schema.names) == ["Order_ID", "amount", "column"]
    assert sorted(kept.scan().to_pandas()["column"]) == [0, 1, 2]
    typed(f"%sleeper ingest kept {source} --by-name")
    assert sorted(kept.scan().to_pandas()["column"]) == [0, 0, 1, 1, 2, 2]

    for options in ("--ignore-extra", "--ignore-extra --by-name"):
        left = typed(f"%sleeper create t --or-replace --from {source} --keys Order_ID {options}")
        assert left.schema.names == ("Order_ID", "amount")
    named = typed(f'%sleeper create named --from {source} --keys Order_ID --columns "=name"')
    assert sorted(named.scan().to_pandas()["name"]) == [0, 1, 2]


@pytest.mark.parametrize("source", SOURCES)
def test_a_table_without_the_column_without_a_name_says_how_to_leave_it_out(typed, source):
    typed("%sleeper create t --from simple.csv --keys Order_ID --ignore-extra")
    error = refused(typed, f"ingest t {source}")
    assert error.message.startswith("a column of the data has no name")
    assert error.hint == 'leave it out with --ignore-extra, or add --columns "=NAME"; the table has Order_ID, amount'
    plan = typed(f"%sleeper ingest t {source} --ignore-extra --dry-run")
    assert "skipped, not in the table: a column without a name" in repr(plan)
    assert typed(f"%sleeper ingest t {source} --ignore-extra").rows == 3


def test_a_column_of_a_sheet_without_a_name_is_kept_or_left_out(typed, tmp_path):
    pytest.importorskip("openpyxl")
    FRAME.to_excel(tmp_path / "simple.xlsx")
    error = refused(typed, "create t --from simple.xlsx --keys Order_ID")
    assert error.message == "column 1 of the data has no name"
    assert error.hint.startswith("leave it out with --ignore-extra, call it column_1 with --by-name, or add --columns")
    kept = typed("%sleeper create kept --from simple.xlsx --keys Order_ID --by-name")
    assert kept.schema.names == ("Order_ID", "column_1", "amount")
    assert typed("%sleeper ingest kept simple.xlsx --by-name").rows == 3
    left = typed("%sleeper create t --from simple.xlsx --keys Order_ID --ignore-extra")
    assert left.schema.names == ("Order_ID", "amount")


def test_a_name_goes_to_the_column_that_was_made_of_it_even_when_others_are_similar(typed, shell):
    shell.push({"similar": pd.DataFrame({"k": [1], "Order ID": [2], "OrderID": [3]})})
    made = typed("%sleeper create t --from $similar --keys k --by-name")
    assert made.scan().to_arrow().to_pylist() == [{"k": 1, "Order_ID": 2, "OrderID": 3}]


def test_keys_and_types_are_named_as_in_the_data_too(typed, shell):
    shell.push({"spaced": pd.DataFrame({"Order ID": [1, 2, 3], "Amount due": [4, 5, 6]})})
    made = typed(
        "%sleeper create t --from $spaced --by-name --keys 'Order ID' --sort 'Amount due' --types 'Order ID=int'"
    )
    assert made.schema.to_dict()["row_keys"] == {"Order_ID": "int"}
    assert made.schema.to_dict()["sort_keys"] == {"Amount_due": "long"}
    renamed = typed("%sleeper create u --from $spaced --columns 'Order ID=id,Amount due=due' --keys 'Order ID'")
    assert renamed.schema.names == ("id", "due")
    assert typed("%sleeper split-points $spaced --by-name --keys 'Order ID' --leaves 2").to_dict()
    error = refused(typed, "create v --from $spaced --keys 'Order ID'")
    assert error.message == "'Order ID' is not a valid field name"
    assert error.hint.endswith("--by-name makes it Order_ID")


def test_the_possible_keys_say_which_name_is_not_valid_and_leave_no_column_out(typed, shell):
    shell.push({"odd": pd.DataFrame({"Order ID": [1, 2], "tags": [["a"], ["b"]], "mixed": [1, "a"], "x": ["a", "b"]})})
    plan = typed("%sleeper create t --from $odd --dry-run")
    cells = {row[0]: row[-1] for row in plan.grid().rows}
    assert cells == {"Order ID": "as Order_ID, with --by-name", "x": "yes", "tags": "no", "mixed": "no"}
    named = typed("%sleeper create t --from $odd --dry-run --by-name")
    assert {row[0]: row[-1] for row in named.grid().rows}["Order_ID"] == "yes"


TWICE = {
    "cat,Cat\n1,2\n": ("'cat' and 'Cat' differ only in case", 'rename one: --columns "Cat=Cat_2"'),
    "cat,cat\n1,2\n": ("column 'cat' occurs twice", "rename one, or name all columns in order: --columns a,b,c"),
}


@pytest.mark.parametrize("text", TWICE)
def test_names_that_are_the_same_to_sql_are_found_before_keys_are_chosen(typed, tmp_path, text):
    (tmp_path / "twice.csv").write_text(text)
    problem, hint = TWICE[text]
    for line in ("create t --from twice.csv --dry-run", "create t --from twice.csv --keys cat --dry-run"):
        shown = repr(typed(f"%sleeper {line}"))
        assert problem in shown
        assert hint in shown
    error = refused(typed, "create t --from twice.csv --keys cat")
    assert problem in error.message
    assert error.hint == hint
    if "Cat" in text:
        assert typed('%sleeper create t --from twice.csv --keys cat --columns "Cat=Cat_2"').schema.names == (
            "cat", "Cat_2",
        )  # fmt: skip
