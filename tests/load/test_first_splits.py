from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.model.properties import SPLITS_BASE64, SPLITS_FILE


def leaves(table: Any) -> list[Any]:
    return [leaf.region.ranges[0].min for leaf in table.at().partition_tree.leaves][1:]


@pytest.mark.parametrize(
    ("kind", "text", "encoded", "points"),
    [
        ("int", "-1\n7\n", "false", [-1, 7]),
        ("string", "g\nn\n", "false", ["g", "n"]),
        ("string", base64.b64encode(b"a\nb").decode(), "true", ["a\nb"]),
        ("bytearray", "fw==\ngA==\n", "false", [b"\x7f", b"\x80"]),
    ],
)
def test_a_table_is_cut_at_the_points_of_its_file(
    session: sl.Session, tmp_path: Path, kind: str, text: str, encoded: str, points: list[Any]
):
    (tmp_path / "splits.txt").write_text(text)
    properties = {SPLITS_FILE: str(tmp_path / "splits.txt"), SPLITS_BASE64: encoded}
    table = session.create_table("t", sl.Schema({"k": kind}), properties=properties)
    assert leaves(table) == points
    assert session.table("t").at().properties[SPLITS_FILE] == str(tmp_path / "splits.txt")


@pytest.mark.parametrize(("kind", "given", "points"), [
    ("long", ["-5", 3], [-5, 3]), ("bytearray", ["gA==", b"\xff"], [b"\x80", b"\xff"]), ("string", ["gA=="], ["gA=="])
])  # fmt: skip
def test_points_are_values_or_their_texts(session: sl.Session, kind: str, given: list[Any], points: list[Any]):
    assert leaves(session.create_table("t", sl.Schema({"k": kind}), given)) == points


def test_a_file_that_cannot_be_makes_no_table(session: sl.Session, tmp_path: Path):
    schema, path = sl.Schema({"k": "int"}), tmp_path / "splits.txt"
    with pytest.raises(sl.NotFound, match=r"split points file .* does not exist"):
        session.create_table("t", schema, properties={SPLITS_FILE: str(path)})
    path.write_bytes(b"\xff\n")
    with pytest.raises(sl.InvalidInput, match="not UTF-8"):
        session.create_table("t", schema, properties={SPLITS_FILE: str(path)})
    path.write_text("2\n1\n")
    with pytest.raises(sl.InvalidInput, match=r"line 2 of .*splits.txt"):
        session.create_table("t", schema, properties={SPLITS_FILE: str(path)})
    with pytest.raises(sl.InvalidInput, match="and in the file"):
        session.create_table("t", schema, [1], properties={SPLITS_FILE: str(path)})
    assert len(session.tables()) == 0
