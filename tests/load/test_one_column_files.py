"""CSV files of one column, in which an empty line below the name is a row."""

from __future__ import annotations

from pathlib import Path

import pytest

import sleeper_nb as sl


@pytest.fixture
def session(tmp_path: Path):
    with sl.connect(tmp_path / "wh") as opened:
        yield opened


def file_of(folder: Path, content: str | bytes) -> Path:
    path = folder / "k.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("k\n1\n2\n", {}),
        ("\nk\n1\n2\n", {}),
        ("\r\n\r\nk\r\n1\r\n2\r\n", {}),
        ("title\n\nk\n1\n2", {"skip_lines": 1}),
        ("# exported\n\nk\n1\n2\n", {"comment": "#"}),
        ("\n# exported\nk\n1\n2\n", {"comment": "#"}),
        (b"\xef\xbb\xbf\n\nk\n1\n2\n", {}),
        ("\n" * (1 << 20) + "k\n1\n2\n", {}),
    ],
)
def test_empty_lines_above_the_name_are_no_rows(session, tmp_path, content, options):
    path = file_of(tmp_path, content)
    made = session.create_table("made", data=path, row_keys=["k"], **options)
    assert made.scan().to_arrow().to_pylist() == [{"k": 1}, {"k": 2}]
    assert made.schema.row_keys[0].type.name == "long"
    table = session.create_table("t", sl.Schema({"k": "string"}))
    assert table.ingest(path, dry_run=True, **options).rows == 2
    table.ingest(path, **options)
    assert table.scan().to_arrow()["k"].to_pylist() == ["1", "2"]


def test_empty_lines_below_the_name_are_rows(session, tmp_path):
    table = session.create_table("t", sl.Schema({"k": "string"}, values={}))
    with pytest.raises(sl.InvalidInput, match="null"):
        table.ingest(file_of(tmp_path, "\nk\na\n\nb\n"))


@pytest.mark.parametrize(("content", "line"), [("k\n1\n\nx\n", 4), ("\n\nk\n1\nx\n", 5), ("\nk\n\n\n1\nx\n", 6)])
def test_errors_name_the_line_of_the_file(session, tmp_path, content, line):
    table = session.create_table("t", sl.Schema({"k": "int"}))
    with pytest.raises(sl.InvalidInput) as error:
        table.ingest(file_of(tmp_path, content))
    assert f"line {line}: 'x' is not a number" in str(error.value)


def test_a_column_whose_name_begins_with_a_hash_may_have_commas_in_quotes(session, tmp_path):
    made = session.create_table("t", data=file_of(tmp_path, '#k\n"a,b"\nc\n'), row_keys=["k"], by_name=True)
    assert made.scan().to_arrow()["k"].to_pylist() == ["a,b", "c"]


def test_a_file_of_utf_16_gets_that_encoding_in_its_hint(session, tmp_path):
    path = file_of(tmp_path, "k\na\n".encode("utf-16"))
    with pytest.raises(sl.StorageError) as error:
        session.create_table("t", data=path, row_keys=["k"])
    assert error.value.hint == "say its encoding, such as encoding='utf-16'"
    made = session.create_table("t", data=path, row_keys=["k"], encoding="utf-16")
    assert made.scan().to_arrow()["k"].to_pylist() == ["a"]
