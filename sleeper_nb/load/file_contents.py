"""Tell the format of a file by its content, where neither its name nor the user says it."""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import replace
from typing import Final
from zipfile import BadZipFile, ZipFile

from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.load.source_files import (
    SPREADSHEET_ENDINGS,
    FileKind,
    SourceFile,
    has_known_format,
    is_hidden,
    read_errors,
)
from sleeper_nb.model.csv_format import CsvFormat

_LOOKED_AT: Final = 64 << 10
_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
_ZIP: Final = b"PK\x03\x04"
_JSON: Final = re.compile(r"\s*(\{|\[\s*[\[\{\]])")
_DELIMITERS: Final = (",", "\t", ";", "|")
_SAY_IT: Final = ("say its format, such as ", Action("--format csv", "format='csv'"))


def with_kind(file: SourceFile, given: str | None) -> SourceFile:
    """Return a file with its format: the given one, or that of its content where its name says none.

    Parameters
    ----------
    given
        ``csv``, ``tsv``, ``json``, ``parquet`` or ``excel``; None where the user says nothing.

    Raises
    ------
    InvalidInput
        When the content is of no format that is known, or a ``.zip`` file has several files in it.
    """
    if given is None and has_known_format(file):
        return file
    with read_errors(file), file.storage.input(file.path) as stream:
        head = bytes(stream.read(_LOOKED_AT))
    if given in {"parquet", "excel"}:
        return replace(file, kind=FileKind(given))
    if given is None and head.startswith(b"PAR1"):
        return replace(file, kind=FileKind("parquet"))
    if head.startswith(_ZIP):
        packed = _zipped(file)
        if packed is None:
            return replace(file, kind=FileKind("excel"))
    else:
        packed = next((name for mark, name in _COMPRESSED.items() if head.startswith(mark)), None)
    kind = FileKind("csv", packed)
    return _of_text(replace(file, kind=kind), given)


def _zipped(file: SourceFile) -> str | None:
    """Return ``zip:`` and the only file in a ``.zip`` file; None when it is a spreadsheet."""
    try:
        with file.storage.input(file.path) as stream, ZipFile(stream) as opened:
            every = [each for each in opened.namelist() if not each.endswith("/")]
    except BadZipFile as error:
        raise InvalidInput(f"cannot read {file.label}: it is not a .zip file", hint="copy it again") from error
    names = [each for each in every if not is_hidden(each) and not each.startswith("__MACOSX/")]
    if "xl/workbook.xml" in every:
        return None
    if len(names) != 1 or names[0].lower().endswith((".parquet", *SPREADSHEET_ENDINGS)):
        listed = ", ".join(names[:3]) or "none"
        hint = "unzip it, and load the files or their folder"
        raise InvalidInput(f"{file.label} does not have one file of CSV or JSON in it, but {listed}", hint=hint)
    return f"zip:{names[0]}"


def _of_text(file: SourceFile, given: str | None) -> SourceFile:
    """Return a file of text as CSV or JSON, and CSV with its delimiter."""
    with read_errors(file), file.open() as stream:
        head = bytes(stream.read(_LOOKED_AT))
    is_utf_16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if given is None and b"\0" in head and not is_utf_16 and file.csv.encoding is None:
        raise InvalidInput(f"the format of {file.label} is not recognised", hint=_SAY_IT)
    text = head.removeprefix(codecs.BOM_UTF8).decode(file.csv.encoding or "utf-8", errors="replace")
    assert file.kind is not None  # noqa: S101 - the caller gave it one
    if given == "json" or (given is None and _JSON.match(text)):
        return replace(file, kind=replace(file.kind, format="json"))
    delimiter = "\t" if given == "tsv" else file.csv.delimiter or _delimiter(text, file.csv)
    return replace(file, csv=replace(file.csv, delimiter=delimiter)) if delimiter else file


def _delimiter(text: str, csv_format: CsvFormat) -> str | None:
    """Return the character that separates most names in the header of a CSV file; None where there is only one name."""
    lines = io.StringIO(text).readlines()[csv_format.skip_lines :]
    header = next((line for line in lines if line.strip() and not _is_comment(line, csv_format)), "")
    unquoted = re.sub(r'"[^"]*"', "", header)
    free = [each for each in _DELIMITERS if each not in {csv_format.quote, csv_format.escape, csv_format.comment}]
    most = max(free, key=unquoted.count)
    return most if unquoted.count(most) else None


def _is_comment(line: str, csv_format: CsvFormat) -> bool:
    return csv_format.comment is not None and line.startswith(csv_format.comment)
