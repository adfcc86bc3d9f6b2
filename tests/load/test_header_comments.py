"""Comments above the header of a CSV file, and headers whose first name begins with #."""

from __future__ import annotations

from pathlib import Path

import pytest

import sleeper_nb as sl

COMMENTS = {
    "one": ("# exported by ACME\nid,name\n1,a\n2,b\n", 1),
    "two": ("# exported by ACME\n# units: EUR\nid,name\n1,a\n", 2),
    "with as many values as the header": ("# exported, by ACME\nid,name\n1,a\n2,b\n", 1),
    "with as many texts as the header": ("# exported, by ACME\ncity,name\nRome,a\n", 1),
    "two with as many values": ("# made by tool X, version 2\n# cols: id, amt\nid,amt\n0,0\n", 2),
    "without a space": ("#\n#x\nid,name,z\n1,a,3\n", 2),
    "an empty line between": ("# a\n\n# b\nid,n\n1,2\n", 3),
    "a quote": ('# a, "b\nid,n\n1,2\n', 1),
    "a mark": ("\ufeff# a\nid,n\n1,2\n", 1),
    "of one column": ("# made by x\nid\n1\n2\n", 1),
    "of another delimiter": ("# fares\nk;n\n1;2\n", 1),
}


@pytest.mark.parametrize("case", COMMENTS)
def test_comments_are_named_with_both_options(tmp_path: Path, case: str):
    text, lines = COMMENTS[case]
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    with sl.connect(tmp_path / "w") as session:
        for create_table in (session.admin.plan_table, session.create_table):
            with pytest.raises(sl.InvalidInput, match="has no column names, but '#") as caught:
                create_table("t", path, row_keys=["id"])
            hint = caught.value.hint
            assert hint is not None
            assert hint.endswith(f"add comment='#' or skip_lines={lines}")
        other = {"delimiter": ";"} if ";" in text else {}
        for option in ({"comment": "#"}, {"skip_lines": lines}):
            plan = session.admin.plan_table("t", path, **option, **other)
            assert not any(each.name.startswith("#") for each in plan.columns)


def test_lines_that_are_skipped_count(tmp_path: Path):
    path = tmp_path / "x.csv"
    path.write_text("made\n# a\n# b\nid,n\n1,2\n")
    with sl.connect(tmp_path / "w") as session:
        with pytest.raises(sl.InvalidInput) as caught:
            session.create_table("t", path, row_keys=["id"], skip_lines=1)
        assert caught.value.hint == "if the first 2 lines are comments, add comment='#' or skip_lines=3"


HEADERS = {
    "numbers below": ("#id,name,z\n1,a,3\n2,b,3\n", ["#id", "name", "z"]),
    "as numpy writes it": ("# id,n\n1.0,2.0\n", ["# id", "n"]),
    "values that begin so, too": ("#tag,c\n#a,1\n#b,2\nc,3\n", ["#tag", "c"]),
    "texts below": ("#n,m\nx,y\nz,u\n", ["#n", "m"]),
    "no rows": ("#id,n\n", ["#id", "n"]),
    "one column": ("#id\n1\n2\n", ["#id"]),
    "one column of texts": ("#id\na\nb\n", ["#id"]),
    "in quotes": ('"#id",n\n1,2\n', ["#id", "n"]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_may_begin_so(tmp_path: Path, case: str):
    text, names = HEADERS[case]
    (tmp_path / "x.csv").write_text(text)
    with sl.connect(tmp_path / "w") as session:
        plan = session.admin.plan_table("t", tmp_path / "x.csv")
        assert [each.name for each in plan.columns] == names


def test_a_wrong_line_below_such_a_header_is_named(tmp_path: Path):
    (tmp_path / "x.csv").write_text("#id,n\n1,2,3\n1,2\n3,4\n")
    with sl.connect(tmp_path / "w") as session, pytest.raises(sl.InvalidInput, match="line 2 has 3 values"):
        session.create_table("t", tmp_path / "x.csv", row_keys=["id"], columns={"#id": "id"})
