"""A dry run of create says what the load says: of names, files that cannot be read, and values of several types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import hint_text


@pytest.fixture
def session(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        yield session


def test_data_without_columns_is_a_difference(session):
    for keys in ([], ["k"]):
        (difference,) = session.admin.plan_table("t", pd.DataFrame(), row_keys=keys).differences
        assert difference.problem == "the data has no columns"
    with pytest.raises(sl.InvalidInput, match="the data has no columns"):
        session.create_table("t", pd.DataFrame(), row_keys=["k"])


def test_files_that_the_load_refuses_are_refused_by_the_plan(session, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('k,v\n1,"a\n2,b\n')
    with pytest.raises(sl.InvalidInput, match="ends inside quotes"):
        session.admin.plan_table("t", path, row_keys=["k"])
    path.write_bytes("k,v\n1,a\n2,é\n".encode("latin-1"))
    (difference,) = session.admin.plan_table("t", path, row_keys=["k"]).differences
    assert difference.problem == r"column 'v', line 3: the text b'\xe9' is not UTF-8"
    path.write_text("k,v\n1,a\n2,b,c\n3\n4,d\n5,e,f\n6,g\n7,h\n")
    differences = session.admin.plan_table("t", path, row_keys=["k"]).differences
    assert [each.problem for each in differences] == [
        "line 3 has 3 values, but there are 2 columns: '2,b,c'", "line 4 has 1 value, but there are 2 columns: '3'",
    ]  # fmt: skip
    assert [each.place for each in differences] == ["lines 3, 6", "line 4"]


def test_nulls_of_a_column_that_is_no_key_are_no_difference(session, tmp_path):
    (tmp_path / "x.csv").write_text("k,v\n1,a\n")
    (tmp_path / "y.csv").write_text("k,v\n,b\n2,\n")
    assert session.admin.plan_table("t", str(tmp_path / "*.csv")).differences == ()


DICTIONARY = pa.array(list("abca")).dictionary_encode()


@pytest.mark.parametrize("values", [pd.Categorical(list("abca")), DICTIONARY, pa.array(list("abca"), pa.string_view())])
def test_values_of_a_dictionary_are_counted(session, values):
    data = pd.DataFrame({"c": values}) if isinstance(values, pd.Categorical) else pa.table({"c": values})
    (candidate,) = session.admin.plan_table("t", data).candidates
    assert (candidate.distinct, candidate.nulls, candidate.fits) == (3, 0, True)
    assert session.create_table("t", data, row_keys=["c"]).scan().to_arrow().num_rows == 4


def test_columns_of_one_name_are_named_in_order(session, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("id,name,name,,Name\n1,a,b,c,d\n")
    plan = session.admin.plan_table("t", path)
    assert "no, another column has its name" in repr(plan)
    assert hint_text(plan.differences[0].hint, "") == "rename one, or name all columns in order: columns=[…]"
    columns = ["id", "name", "name_2", "column", "Name_3"]
    made = session.create_table("t", path, row_keys=["id"], columns=columns)
    assert made.scan().to_arrow().select(columns).to_pylist() == [dict(zip(columns, [1, *"abcd"], strict=True))]
    path.write_text("Name,name\n1,2\n")
    (difference,) = session.admin.plan_table("u", path).differences
    assert hint_text(difference.hint, "") == "rename one: columns={'name': 'name_2'}"
    assert session.create_table("u", path, row_keys=["Name"], columns={"name": "name_2"}).schema.names


JSON = '{"id":0,"amt":0.0}\n{"id":1,"amt":1.50}\n{"id":2,"amt":"n/a"}\n{"id":3,"amt":12}\n'


@pytest.mark.parametrize("text", [JSON, f"[{','.join(JSON.splitlines())}]"])
def test_a_text_among_the_numbers_of_json_may_mean_null_or_stay(session, tmp_path, text: str):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(sl.InvalidInput, match="several types: double, and 'n/a' in line") as caught:
        session.create_table("t", tmp_path / "x.json", row_keys=["id"])
    hint = "to load text as NULL: null_text=['n/a']; or store it as text: types={'amt': 'string'}, cast=True"
    assert caught.value.hint == f"{hint}, or add ignore_extra=True"
    table = session.create_table("t", tmp_path / "x.json", row_keys=["id"], null_text=["n/a"])
    assert table.scan().to_arrow().sort_by("id")["amt"].to_pylist() == [0.0, 1.5, None, 12.0]
    with pytest.raises(sl.InvalidInput, match="'n/a' is not a number") as caught:
        table.ingest(tmp_path / "x.json")
    assert caught.value.hint == "write a number such as 12 or 1.5, or add null_text=['n/a'] if it means NULL"
    assert table.ingest(tmp_path / "x.json", null_text="n/a").rows == 4
    as_text = session.create_table("u", tmp_path / "x.json", row_keys=["id"], types={"amt": "string"}, cast=True)
    assert as_text.scan().to_arrow().sort_by("id")["amt"].to_pylist() == ["0.0", "1.50", "n/a", "12"]


def test_a_null_text_of_json_is_one_in_columns_of_texts_and_nothing_else_is(session, tmp_path):
    (tmp_path / "x.json").write_text('{"k":1,"s":"n/a","e":""}\n{"k":2,"s":"b","e":"c"}\n')
    table = session.create_table("t", tmp_path / "x.json", row_keys=["k"], null_text="n/a")
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "s": None, "e": ""}, {"k": 2, "s": "b", "e": "c"},
    ]  # fmt: skip


def test_a_text_among_the_numbers_of_a_frame_is_named(session):
    frame = pd.DataFrame({"k": [1, 2, 3], "x": [1.5, pd.NA, "n/a"]})
    with pytest.raises(sl.InvalidInput, match="several types: double, and 'n/a' in row 3") as caught:
        session.create_table("t", frame, row_keys=["k"])
    assert "convert the column to one type first, or store it as text" in str(caught.value)
    assert session.create_table("t", frame, row_keys=["k"], types={"x": "string"}, cast=True).schema.names


@pytest.mark.parametrize("values", [np.array([1 + 2j, 3]), [1 + 2j, None]])
def test_complex_numbers_have_no_type(session, values):
    frame = pd.DataFrame({"k": [1, 2], "x": values})
    with pytest.raises(sl.InvalidInput, match=r"column 'x', row 1: no column can hold \(1\+2j\)"):
        session.create_table("t", frame, row_keys=["k"])
    assert session.create_table("t", frame, row_keys=["k"], ignore_extra=True).schema.names == ("k",)


def test_a_key_of_json_is_not_loaded_as_null(session, tmp_path):
    (tmp_path / "x.json").write_text(JSON)
    with pytest.raises(sl.InvalidInput, match="several types") as caught:
        session.create_table("t", tmp_path / "x.json", row_keys=["amt"])
    assert caught.value.hint == "correct the data, or store it as text: types={'amt': 'string'}, cast=True"
