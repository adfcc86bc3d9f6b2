"""The types that a new table gets from the texts of a CSV file, as its options say they are written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.report import values_of

CASES = {
    "decimal comma": ("id;x\n1;1,5\n2;-2,25\n", {"delimiter": ";", "decimal": ","}, "double", [1.5, -2.25]),
    "whole with a decimal comma": ("id;x\n1;1\n2;2\n", {"delimiter": ";", "decimal": ","}, "long", [1, 2]),
    "point where a comma is the mark": ("id;x\n1;1.5\n2;2\n", {"delimiter": ";", "decimal": ","}, "string",
                                        ["1.5", "2"]),
    "comma without the option": ("id;x\n1;1,5\n2;2\n", {"delimiter": ";"}, "string", ["1,5", "2"]),
    "dates": ("id,x\n1,24/11/2026\n2,\n", {"date_format": "%d/%m/%Y"}, "date", [date(2026, 11, 24), None]),
    "one that is no date": ("id,x\n1,24/11/2026\n2,31/02/2026\n", {"date_format": "%d/%m/%Y"}, "string",
                            ["24/11/2026", "31/02/2026"]),
    "times": ("id,x\n1,24.11.2026 10:05\n2,\n", {"timestamp_format": "%d.%m.%Y %H:%M"}, "timestamp",
              [datetime(2026, 11, 24, 10, 5, tzinfo=UTC), None]),
    "dates of digits": ("id,x\n1,20261124\n2,20260101\n", {"date_format": "%Y%m%d"}, "date",
                        [date(2026, 11, 24), date(2026, 1, 1)]),
    "months are no dates": ("id,x\n1,202611\n2,202612\n", {"date_format": "%Y%m%d"}, "long", [202611, 202612]),
    "numbers are no dates": ("id,x\n1,20261350\n2,20260101\n", {"date_format": "%Y%m%d"}, "long",
                             [20261350, 20260101]),
    "midnights": ("id,x\n1,2026-01-01 00:00:00\n2,2026-01-02 00:00:00\n", {}, "timestamp",
                  [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]),
    "midnights of a zone": ("id,x\n1,2026-01-01T00Z\n2,2026-01-02T01:00+01:00\n", {}, "timestamp",
                            [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]),
    "dates and a midnight": ("id,x\n1,2026-01-01\n2,2026-01-02 00:00\n", {}, "timestamp",
                             [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]),
    "days of any year": ("id,x\n1,12026-01-01\n2, 2026-01-02 \n", {}, "date", ["12026-01-01", date(2026, 1, 2)]),
    "midnights as dates": ("id,x\n1,2026-01-01 00:00\n", {"date_format": "%Y-%m-%d %H:%M"}, "date",
                           [date(2026, 1, 1)]),
    "a type that was given": ("id,x\n1,2026-01-01 00:00\n", {"types": {"x": "date"}}, "date", [date(2026, 1, 1)]),
    "whole numbers with a fraction": ("id,x\n1,1.0\n2,2.00\n", {}, "double", [1.0, 2.0]),
    "whole numbers with an exponent": ("id,x\n1,1e3\n2,2\n", {}, "double", [1000.0, 2.0]),
    "whole numbers as longs": ("id,x\n1,1.0\n", {"types": {"x": "long"}}, "long", [1]),
    "whole numbers with a fraction after a comma": ("id;x\n1;1,0\n2;2\n", {"delimiter": ";", "decimal": ","}, "double",
                                                    [1.0, 2.0]),
    "spaces around": ("id,x\n1, 1\u00a0\n2,+2\n", {}, "long", [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_types_are_found_in_texts_as_they_are_written(tmp_path: Path, case: str):
    text, options, kind, values = CASES[case]
    (tmp_path / "x.csv").write_text(text)
    with sl.connect(tmp_path / "w") as session:
        plan = session.admin.plan_table("t", data=tmp_path / "x.csv", row_keys=["id"], **options)
        assert plan.schema.to_dict()["values"] == {"x": f"{kind}?"}
        table = session.create_table("t", data=tmp_path / "x.csv", row_keys=["id"], **options)
        assert values_of(table.scan().to_arrow().sort_by("id")["x"]) == values


def test_a_midnight_in_json_is_a_time_and_later_rows_may_have_others(tmp_path: Path):
    (tmp_path / "x.jsonl").write_text('{"k": 1, "at": "2026-01-01T00:00:00Z", "on": "2026-01-01"}\n')
    (tmp_path / "y.jsonl").write_text('{"k": 2, "at": "2026-01-01T10:00:00Z", "on": "2026-01-02"}\n')
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", data=tmp_path / "x.jsonl", row_keys=["k"])
        assert table.schema.to_dict()["values"] == {"at": "timestamp?", "on": "date?"}
        assert table.ingest(tmp_path / "y.jsonl").rows == 1


def test_a_date_can_be_a_key(tmp_path: Path):
    (tmp_path / "x.csv").write_text("d\n02/01/2026\n01/02/2026\n")
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", data=tmp_path / "x.csv", row_keys=["d"], leaves=2, date_format="%d/%m/%Y")
        assert table.scan().to_arrow()["d"].to_pylist() == [date(2026, 1, 2), date(2026, 2, 1)]
        estimate = session.admin.split_points(tmp_path / "x.csv", ["d"], 2, date_format="%d/%m/%Y")
        assert estimate.to_dict()


@pytest.mark.parametrize("options", [{}, {"date_format": "%d.%m.%Y"}, {"date_format": "%Y%m%d"}, {"decimal": ","}])
def test_a_text_that_is_not_utf_8_is_named_whatever_the_options(tmp_path: Path, options):
    (tmp_path / "x.csv").write_bytes("id;x\n1;Málaga\n".encode("latin-1"))
    with sl.connect(tmp_path / "w") as session:
        make = {"data": tmp_path / "x.csv", "row_keys": ["id"], "delimiter": ";", **options}
        (difference,) = session.admin.plan_table("t", **make).differences
        assert "is not UTF-8" in difference.problem
        with pytest.raises(sl.InvalidInput, match="is not UTF-8"):
            session.create_table("t", **make)
