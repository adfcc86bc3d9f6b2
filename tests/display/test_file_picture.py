"""The picture of a table's files, and its lines: what they say, that they are well formed and small."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.display.preview import MAX_BYTES
from tests.support.pictures import line_text, lines_of

_SIZE = re.compile(r"\d+ B\b")
HOSTILE = "</svg><script>alert(1)</script>'\"&" + "x" * 500


@pytest.fixture
def make(tmp_path):
    with sl.connect(tmp_path, clock=ManualClock()) as session:

        def make(splits, loads, kind="long"):
            table = session.create_table("t", sl.Schema(row_keys={"key": kind}, values={}), splits)
            for keys in loads:
                table.ingest([{"key": key} for key in keys])
            return table

        yield make


def _texts(picture):
    """Return what is to be read, without sizes, which are the Parquet writer's."""
    root = ET.fromstring(_SIZE.sub("SIZE", picture))  # noqa: S314 - our own text; that it is well formed is what is tested
    said = {"title", "div", "text"}
    lines = {id(line): line_text(line) for line in lines_of(root)}
    found = (lines.get(id(each), each.text if each.tag in said else "") for each in root.iter())
    return [text for text in found if text]


def test_each_file_is_a_bar_with_its_letter_rows_and_bytes(make):
    picture = make([100], [range(10), *[range(100, 110)] * 4]).inspect.files().picture
    texts = _texts(picture)
    assert texts[0] == "files of t at snapshot 6"
    assert [text for text in texts if text.endswith("10 rows · SIZE")] == [
        "10 rows · SIZE", *["A · 10 rows · SIZE"] * 4]  # fmt: skip
    assert picture.count('stroke-dasharray="') == 4
    assert "5 files in 2 partitions by key" in texts[-1]
    assert "a compaction (size-ratio) would merge 4 files into 1: those of one letter, with a dashed edge" in texts[-1]
    assert any(text.startswith("A: would be merged · 10 rows · SIZE · keys 100 to 109 · ") for text in texts)


def test_the_lines_say_the_same(make):
    shown = repr(make([100], [range(10), *[range(100, 110)] * 4]).inspect.files())
    lines = _SIZE.sub("SIZE", shown).splitlines()
    full = "█" * 24
    assert lines[:4] == ["files of t at snapshot 6", "(-∞, 100)", f"    {full}  10 rows, SIZE", "[100, ∞)"]
    assert lines[4:8] == [f"  A {full}  10 rows, SIZE"] * 4
    assert lines[8].startswith("5 files in 2 partitions by key · a compaction (size-ratio) would merge 4 files into 1")
    assert lines[9].split()[:2] == ["file", "partition"]


def test_the_listing_is_below_the_picture_and_is_a_sequence(make):
    files = make([], [range(3), range(5)]).inspect.files()
    assert [file["rows"] for file in files] == [3, 5]
    assert (files[-1]["max_key"], [file["rows"] for file in files[:1]], len(files)) == (4, [3], 2)
    assert [shown.value for shown in files.to_dict()["max key"]] == [2, 4]
    with pytest.raises(IndexError):
        files[2]
    assert files._repr_html_().index("<svg") < files._repr_html_().index("<table")


def test_nothing_to_merge_is_said(make):
    assert "would merge none" in make([], [range(3)]).inspect.files().picture


def test_a_table_without_files_has_its_picture(make):
    files = make([1], []).inspect.files()
    assert _texts(files.picture)[0] == "files of t at snapshot 1"
    assert "0 files in 2 partitions" in repr(files)


def test_a_hostile_key_stays_text(make):
    files = make([HOSTILE], [["a", HOSTILE]], "string").inspect.files()
    assert "<script" not in files._repr_html_()
    assert any("keys </svg><script>alert(1)" in text for text in _texts(files.picture))


def test_many_files_are_a_small_picture_that_says_how_it_was_drawn(make):
    files = make(list(range(10, 400, 10)), [range(400)] * 5).inspect.files()
    assert len(files.picture.encode()) < MAX_BYTES / 2
    assert "drawn as 14 groups of up to 3 partitions" in files.picture
    assert "more than 12 files are drawn as one bar for each merge" in files.picture
    assert "first 50 of 200 rows" in files.grid().footer


def test_keys_above_a_column_are_whole_or_left_out(make):
    points = [1000, 2500, 10_000, 25_000, 100_000, 250_000, *range(300_000, 1_000_000, 100_000)]
    texts = _texts(make(points, [range(3)]).inspect.files().picture)
    heads = [text for text in texts if text[:1] in "≥<[("]
    assert heads == ["< 1000", "≥ 1000", "≥ 2500", "≥ 10000", "≥ 25000"]
    assert any(text.endswith("in (-∞, 1000)") for text in texts)


def test_the_words_of_a_bar_begin_where_it_begins_or_end_where_it_ends(make):
    picture = (
        make([100, 200, 300], [range(50), range(60, 100), range(95, 100), range(100, 120)]).inspect.files().picture
    )
    svg = ET.fromstring(picture).find(".//svg")  # noqa: S314 - our own
    shapes, words = {}, {}
    for group in svg.findall("g"):
        for bar in group.findall("rect"):
            shapes[int(bar.get("y")) - 1, float(bar.get("x")[:-1]) // 25] = [
                float(bar.get(name)[:-1]) for name in ("x", "width")]  # fmt: skip
        for place in group.findall("foreignObject"):
            if place.get("y") != "2":
                begin, wide = (float(place.get(name)[:-1]) for name in ("x", "width"))
                ends = any((each.get("class") or "").endswith("ends") for each in place.iter())
                words[int(place.get("y")) - 2, begin // 25] = begin + wide if ends else begin, ends
    assert set(shapes) == set(words)
    for at, (begin, wide) in shapes.items():
        assert words[at] in ((pytest.approx(begin, abs=0.01), False), (pytest.approx(begin + wide, abs=0.01), True))
    assert {ends for _, ends in words.values()} == {True, False}
