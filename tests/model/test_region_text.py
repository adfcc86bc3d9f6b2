from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.keys import written_key
from sleeper_nb.model.partitions import Range, parse_region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.sql_values import quoted_text

SCHEMA = Schema({"carrier": "string", "flight": "int", "tail": "bytearray"})


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("carrier=[AA,DL)", {"carrier": ("AA", "DL")}),
        (" carrier = [ AA , DL ) ", {"carrier": ("AA", "DL")}),
        ("carrier=(AA,DL]", {"carrier": ("AA\0", "DL\0")}),
        ("flight=(1,100]", {"flight": (2, 101)}),
        ("flight=[-5,)", {"flight": (-5, None)}),
        ("flight=(,7)", {"flight": (None, 7)}),
        ("flight=[0,2147483647]", {"flight": (0, None)}),
        ("carrier=UA", {"carrier": ("UA", "UA\0")}),
        ("carrier=UA flight=[1,2)", {"carrier": ("UA", "UA\0"), "flight": (1, 2)}),
        ("flight=[1,2), carrier=b;tail=[,/w==)", {"flight": (1, 2), "carrier": ("b", "b\0"), "tail": (None, b"\xff")}),
        ("carrier=['','it''s')", {"carrier": ("", "it's")}),
        ("""carrier=["a,b)","c ")""", {"carrier": ("a,b)", "c ")}),
        ('''carrier=['a "b"',"c ""d""")''', {"carrier": ('a "b"', 'c "d"')}),
        ("carrier=[New York,Zürich)", {"carrier": ("New York", "Zürich")}),
    ],
)  # fmt: skip
def test_regions_are_read(text: str, region: Any):
    assert parse_region(SCHEMA, text) == region


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the region is empty"), (" , ", "cannot read"), ("carrier", "cannot read the region at 'carrier'"),
        ("carrier=[AA,DL", "cannot read"), ("carrier=[AA)", "cannot read"), ("carrier=[a,b,c)", "cannot read"),
        ("carrier=[AA,DL) and flight", "cannot read the region at 'and flight'"),
        ("carrier=['a,b)", "cannot read"), ("carrier=", "carrier= has no value"),
        ("carier=[a,b)", "'carier' is not a row key"), ("carrier=a carrier=b", "row key 'carrier' has two ranges"),
        ("flight=[a,b)", "bound 'a' is not a value of row key 'flight'"), ("flight=[1,3000000000)", "out of range"),
        ("tail=[!,)", "is not a value of row key 'tail'"), ("carrier=[DL,AA)", "is empty"),
        ("flight=(2147483647,]", "is empty"), ("flight=(1,2)", "is empty"),
    ],
)  # fmt: skip
def test_texts_that_are_no_region_are_refused(text: str, words: str):
    with pytest.raises(InvalidInput) as refused:
        parse_region(SCHEMA, text)
    assert words in refused.value.message
    assert refused.value.hint


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_string_can_be_a_bound_in_quotes(low: str, high: str):
    low, high = sorted([low, high + "\0"])
    if low < high:
        quoted = [value.replace("'", "''") for value in (low, high)]
        assert parse_region(SCHEMA, f"carrier=['{quoted[0]}','{quoted[1]}')") == {"carrier": (low, high)}


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_RANGES = [
    st.tuples(values, values, st.sampled_from(["both", "low", "high", "none"])).map(
        lambda drawn: Range(
            min(drawn[:2]) if drawn[2] in {"both", "low"} else None,
            max(drawn[:2]) if drawn[2] in {"both", "high"} else None,
        )
    )
    for values in (_TEXT, st.integers(-(2**31), 2**31 - 1), st.binary())
]


def written(value: Any) -> str:
    return "" if value is None else quoted_text(written_key(value))


@given(st.tuples(*_RANGES).filter(lambda ranges: all(r.min is None or r.min != r.max for r in ranges)))
def test_a_region_that_is_written_is_read_as_it_was(ranges: tuple[Range, ...]):
    names = [key.name for key in SCHEMA.row_keys]
    parts = zip(names, ranges, strict=True)
    text = " ".join(f"{name}=[{written(r.min)},{written(r.max)})" for name, r in parts if r != Range())
    bounded = {name: (r.min, r.max) for name, r in zip(names, ranges, strict=True) if r != Range()}
    assert (parse_region(SCHEMA, text) if text else {}) == bounded
