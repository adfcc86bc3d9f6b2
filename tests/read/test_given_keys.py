"""Keys of a scan in the forms that programs have them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import Schema
from sleeper_nb.read.scan_plan import keys_given

ONE, TWO = Schema({"n": "int"}), Schema({"city": "string", "n": "int"})


@pytest.mark.parametrize(
    "keys",
    [
        [3, 5, 3], [(3,), (5,)], np.array([3, 5]), [np.int64(3), np.int32(5)], pd.Series([3, 5]), pd.Index([3, 5]),
        pl.Series([3, 5]), pa.array([3, 5]), pa.chunked_array([[3], [5]]), range(3, 6, 2), {3: "a", 5: "b"}.keys(),
    ],
)  # fmt: skip
def test_several_keys_are_a_list_a_set_a_range_a_column_or_an_array(keys: Any):
    assert keys_given(ONE, keys) == [(3,), (5,)]
    assert sorted(keys_given(ONE, {5, 3})) == [(3,), (5,)]


def test_one_key_is_a_value_or_a_tuple_of_values():
    assert keys_given(TWO, "rome") == keys_given(TWO, ("rome",)) == keys_given(TWO, np.str_("rome")) == [("rome",)]
    assert keys_given(TWO, ("rome", np.int64(3))) == keys_given(TWO, [("rome", 3)]) == [("rome", 3)]
    assert keys_given(ONE, np.int64(3)) == [(3,)]
    assert keys_given(ONE, []) == []


@pytest.mark.parametrize(
    ("schema", "keys", "problem", "hint"),
    [
        (
            TWO,
            ("rome", "oslo"),
            "key 'oslo' is not a value of row key 'n'",
            "several keys are a list: ['rome', 'oslo']",
        ),
        (ONE, (1, 2), "key (1, 2) has 2 values", "there is 1 row key; several keys are a list: [1, 2]"),
        (TWO, ("rome", 1, 2), "key ('rome', 1, 2) has 3 values", "there are 2 row keys"),
        (TWO, [["rome", 1]], "key ['rome', 1] is a list", "a key of several values is a tuple: ('rome', 1)"),
        (ONE, pd.DataFrame({"n": [1]}), "keys are values or tuples of values, not a DataFrame", "x['city']"),
        (ONE, pa.table({"n": [1]}), "keys are values or tuples of values, not a Table", "x['city']"),
        (ONE, pd.Series([1, None]), "key 1.0 is not a value", "the row key is int, not float"),
        (ONE, {1: 2}, "key a dict is not a value", "the row key is int, not dict"),
    ],
)
def test_what_is_no_key_says_what_to_write(schema: Schema, keys: Any, problem: str, hint: str):
    with pytest.raises(InvalidInput) as caught:
        keys_given(schema, keys)
    assert problem in caught.value.message
    assert hint in str(caught.value.hint)
