"""Each decision has its own number and file, the index lists it, and every reference to one leads to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
FIRST_LINES = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n"
    r"- Date: \d{4}-\d\d-\d\d\n"
    r"- Status: (?P<status>accepted|superseded by (?P<successor>\d+))\n"
    r"(?:- Merged: (?P<merged>\d+(?:, \d+)*)\n)?\n"
)


@dataclass(frozen=True)
class Decision:
    """What the first lines of a decision say."""

    file: str
    number: int
    title: str
    status: str
    successor: int | None
    merged: tuple[int, ...]


def read(path):
    said = FIRST_LINES.match(path.read_text(encoding="utf-8"))
    assert said, f"{path.name} does not begin with a number and title, a date and a known status"
    merged = tuple(int(number) for number in re.findall(r"\d+", said["merged"] or ""))
    successor = int(said["successor"]) if said["successor"] else None
    return Decision(path.name, int(said["number"]), said["title"], said["status"], successor, merged)


DECISIONS = [read(path) for path in sorted(FOLDER.glob("[0-9]*.md"))]
NUMBERS = {decision.number for decision in DECISIONS}


def sources():
    """Every text that may refer to a decision."""
    for folder in ("sleeper_nb", "magics", "docs", "benchmarks", "tests", "notebooks"):
        for kind in ("py", "md", "js", "ipynb"):
            yield from (path for path in (ROOT / folder).rglob(f"*.{kind}") if "_build" not in path.parts)
    yield from (*ROOT.glob("*.md"), ROOT / "pyproject.toml")


def test_no_number_is_used_twice_and_files_are_named_by_theirs():
    used = [number for decision in DECISIONS for number in (decision.number, *decision.merged)]
    assert sorted(used) == sorted(set(used))
    assert [one.file for one in DECISIONS if not re.fullmatch(rf"{one.number:04}-[a-z0-9-]+\.md", one.file)] == []


def test_what_is_superseded_names_another_decision():
    successors = {(one.number, one.successor) for one in DECISIONS if one.successor}
    assert [pair for pair in successors if pair[1] not in NUMBERS - {pair[0]}] == []


def test_the_index_lists_each_decision_with_its_title_and_status():
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\((.+)\) \| (.+) \|$", index, re.MULTILINE)
    listed = sorted((int(number), title, file, status) for number, title, file, status in rows)
    assert listed == [(one.number, one.title, one.file, one.status) for one in DECISIONS]


def test_each_reference_names_a_decision_that_is_there():
    referred = {
        (path.relative_to(ROOT).as_posix(), int(number))
        for path in sources()
        for number in re.findall(r"\b[Dd]ecision (\d+)\b", path.read_text(encoding="utf-8"))
    }
    assert [reference for reference in sorted(referred) if reference[1] not in NUMBERS] == []
    links = {link for path in FOLDER.glob("*.md") for link in re.findall(r"\]\((\d[^)#]*)\)", path.read_text())}
    assert links <= {one.file for one in DECISIONS}
