"""The one rule of casts: over all pairs of types, depths and inputs a value is exactly itself, or it is refused."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from docs import reference_page
from sleeper_nb.load import sources
from sleeper_nb.load.casts import (
    KINDS,
    InexactValueError,
    exactly,
    fit,
    kind_of,
)
from sleeper_nb.model.schema import parse_type
from tests.support.casts import REFUSED, Case, as_digits, as_double, cases, expected, same

CASES = cases()


def found(chosen: list[Case], data: Any) -> dict[str, Any]:
    """Return the one value of each column, or `REFUSED`."""
    schema = sl.Schema({"k": "int"}, {}, {case.name: f"{case.field}?" for case in chosen})
    (source,) = sources.find_sources(data)
    got = sources.read_source(source, schema)
    told = {d.column: d for d in got.differences}
    for difference in told.values():
        assert f"column {difference.column!r}" in difference.problem
        assert difference.change
    return {case.name: REFUSED if case.name in told else got.columns[case.name].to_pylist()[0] for case in chosen}


def table_of(chosen: list[Case]) -> pa.Table:
    return pa.table({"k": pa.array([1], pa.int32()), **{case.name: case.column for case in chosen}})


def is_a(*tests: Callable[[pa.DataType], bool]) -> Callable[[Case], bool]:
    return lambda case: any(test(case.sample.arrow) for test in tests)


def through_arrow(chosen: list[Case], _: Path) -> Any:
    return table_of(chosen)


def through_pandas(chosen: list[Case], _: Path) -> Any:
    return table_of(chosen).to_pandas(ignore_metadata=True)


def through_polars(chosen: list[Case], _: Path) -> Any:
    return pl.from_arrow(table_of(chosen))


def through_dicts(chosen: list[Case], _: Path) -> Any:
    return [{"k": 1, **{case.name: case.value for case in chosen}}]


def through_parquet(chosen: list[Case], folder: Path) -> Any:
    pq.write_table(table_of(chosen), folder / "in.parquet")
    return folder / "in.parquet"


def through_csv(chosen: list[Case], folder: Path) -> Any:
    with (folder / "in.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(["k", *(case.name for case in chosen)])
        writer.writerow([1, *(json.dumps(case.value) if case.depth else case.value for case in chosen)])
    return folder / "in.csv"


def through_json(chosen: list[Case], folder: Path) -> Any:
    values = ", ".join(f'"{case.name}": {as_json(case)}' for case in chosen)
    (folder / "in.json").write_text(f'{{"k": 1, {values}}}\n', encoding="utf-8")
    return folder / "in.json"


def as_json(case: Case) -> str:
    value = case.sample.value
    text = str(value) if isinstance(value, Decimal) else json.dumps(value)
    return {"": text, "list": f"[{text}]", "map": f'{{"k": {text}}}'}[case.depth]


def is_uuid(arrow: pa.DataType) -> bool:
    return isinstance(arrow, pa.UuidType)


WITHIN_PANDAS = is_a(
    pa.types.is_float16, pa.types.is_float32, pa.types.is_string_view, pa.types.is_binary_view,
    pa.types.is_fixed_size_binary, lambda arrow: pa.types.is_timestamp(arrow) and arrow.unit == "ns",
    is_uuid,
)  # fmt: skip
"""What Arrow gives pandas otherwise, or not at all, within lists and maps."""
UNKNOWN_TO_POLARS = is_a(pa.types.is_float16, pa.types.is_decimal256, pa.types.is_fixed_size_binary, is_uuid)


def not_utf8(case: Case) -> bool:
    """Return whether a case is a text that neither Python nor a text file can hold."""
    return isinstance(case.sample.value, bytes) and kind_of(case.sample.arrow) == "string"


INPUTS: dict[str, tuple[Callable[[list[Case], Path], Any], Callable[[Case], bool]]] = {
    "arrow": (through_arrow, lambda _: True),
    "pandas": (through_pandas, lambda case: not not_utf8(case) and (case.depth == "" or not WITHIN_PANDAS(case))),
    "polars": (through_polars, lambda case: not not_utf8(case) and not UNKNOWN_TO_POLARS(case)),
    "dicts": (through_dicts, lambda case: not not_utf8(case)),
    "parquet": (through_parquet, lambda case: case.sample.arrow != pa.duration("us")),
    "csv": (through_csv, lambda case: case.sample.arrow == pa.string() and not not_utf8(case)),
    "json": (through_json, lambda case: isinstance(case.sample.value, str | bool | int | float | Decimal)
             and case.sample.arrow in {pa.string(), pa.bool_(), pa.int64(), pa.uint64(), pa.float64(),
                                       pa.decimal128(38, 5)}),
}  # fmt: skip


def wanted(case: Case, source: str) -> Any:
    """Return what a case shall be, by what its input makes of the sample."""
    sample = {"dicts": as_double, "json": as_digits}.get(source, lambda each: each)(case.sample)
    if source == "pandas" and isinstance(sample.value, float) and math.isnan(sample.value):
        if not case.depth:
            return None  # pandas has no other value for what is missing
        if case.target.name not in {"float", "double"}:
            return case.wrapped(None)  # pandas makes floats of whole numbers beside NULL
    if source == "csv" and sample.value == "" and not case.depth and case.target.name not in {"string", "bytearray"}:
        return None
    made = expected(sample, case.target, text_file=source in {"csv", "json"})
    return made if made is REFUSED else case.wrapped(made)


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        pytest.param(source, depth, marks=[pytest.mark.long] if depth and source != "arrow" else [])
        for source in INPUTS
        for depth in ("", "list", "map")
    ],
)
def test_a_value_is_exactly_itself_or_refused(tmp_path: Path, source: str, depth: str):
    """Lists and maps of other inputs than Arrow's are `long`."""
    write, knows = INPUTS[source]
    chosen = [case for case in CASES if case.depth == depth and knows(case)]
    assert len(chosen) > 300
    got = found(chosen, write(chosen, tmp_path))
    wrong = [
        f"{case.sample.arrow} {case.sample.value!r} as {case.field}: {got[case.name]!r}, not {wanted(case, source)!r}"
        for case in chosen
        if not same(got[case.name], wanted(case, source))
    ]
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong[:40])


def test_the_table_of_casts_in_the_reference_is_what_casts_do():
    chosen = [case for case in CASES if not case.depth]
    got = found(chosen, table_of(chosen))
    outcomes: dict[tuple[str, str], set[bool]] = {}
    for case in chosen:
        pair = kind_of(case.sample.arrow), case.target.name
        outcomes.setdefault(pair, set()).add(got[case.name] is REFUSED)
    with pytest.raises(InexactValueError):
        exactly(pa.array([2**31 - 2], pa.int32()).view(pa.date32()), parse_type("timestamp"))
    outcomes["date", "timestamp"].add(True)  # noqa: FBT003 - it was refused
    with pytest.raises(InexactValueError):
        exactly(pa.array([1]).view(pa.time64("ns")), parse_type("time"))
    outcomes["time", "time"].add(True)  # noqa: FBT003 - it was refused
    for (kind, target), refused in outcomes.items():
        assert {"exact": {False}, "refused": {True}, "where it fits": {False, True}}[fit(kind, target)] == refused, (
            kind, target,
        )  # fmt: skip
    assert {kind for kind, _ in outcomes} == set(KINDS) - {"null", "list", "map", "struct"}
    page = reference_page.PAGE.read_text(encoding="utf-8")
    for kind in KINDS:
        (line,) = [row for row in page.splitlines() if row.startswith(f"| {kind} |")]
        assert [cell.strip() for cell in line.split("|")[2:-1]] == [
            fit(kind, name) for name in reference_page.CAST_TARGETS
        ]
