"""The guide and the questions are typed as they stand, in order, and each box is a part of the answer above it."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from IPython.utils.capture import capture_output

from docs.markdown import code_blocks, sections
from sleeper_nb import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("guide.md", "faq.md", "other-engines.md")
LANGUAGES = {"", "python", "bash", "text"}
ENOUGH_QUESTIONS = 20


def normal(text):
    """Text without the colours of errors, with one space between words."""
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())


def is_shown(box, answer):
    """Whether a box is a part of an answer; … stands for anything."""
    return re.search(".*?".join(re.escape(normal(part)) for part in box.split("…")), normal(answer)) is not None


class Notebook:
    """Types blocks into a shell and a console, and knows the last answer and whether it was an error."""

    def __init__(self, shell):
        self.shell = shell
        self.answer = ""
        self.error = None

    def type_in(self, language, content):
        for cell in self._cells(language, content):
            if self.error:
                pytest.fail(f"an error that the page does not show, before {cell!r}: {self.error!r}")
            with capture_output() as output:
                if language == "bash":
                    self._console(cell)
                else:
                    self._cell(cell)
            self.answer = f"{output.stdout}\n{output.stderr}\n{self.answer}"

    @staticmethod
    def _cells(language, content):
        whole = language == "python" or content.startswith("%%")
        return [content.strip()] if whole else content.strip().splitlines()

    def _cell(self, cell):
        run = self.shell.run_cell(cell)
        self.error = run.error_before_exec or run.error_in_exec
        self.answer = f"{type(self.error).__name__}: {self.error}" if self.error else f"{run.result!r}"

    def _console(self, line):
        command, *words = shlex.split(line)
        assert (command, cli.main(words)) == ("sleeper", cli.DONE), line
        self.answer = ""

    def check(self, box):
        assert is_shown(box, self.answer), f"{box}\nis no part of\n{self.answer}"
        assert self.error is None or box.startswith(f"{type(self.error).__name__}: "), self.error
        self.error = None


@pytest.mark.parametrize("page", PAGES)
def test_every_line_runs_and_every_box_shows_a_part_of_its_answer(page, shell):
    notebook = Notebook(shell)
    shell.run_cell("%config SleeperMagics.engine = 'duckdb'")
    for language, content in code_blocks((DOCS / page).read_text(encoding="utf-8")):
        if language == "text":
            notebook.check(content)
        else:
            notebook.type_in(language, content)
    assert notebook.error is None
    for name in ("session", "one", "two"):
        if name in shell.user_ns:
            shell.user_ns[name].close()


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_of_a_kind_that_is_checked(page):
    blocks = list(code_blocks((DOCS / page).read_text(encoding="utf-8")))
    assert {language for language, _ in blocks} <= LANGUAGES
    assert all(before[0] != "text" for before, after in pairwise(blocks) if after[0] == "text")


def test_a_box_that_is_not_in_the_answer_is_found():
    assert is_shown("rows … 8", "files  2\nrows     4    8")
    assert not is_shown("rows 9", "rows 8")
    assert not is_shown("8 … rows", "rows 8")


def test_there_are_twenty_questions_and_each_is_one():
    _, questions = sections((DOCS / "faq.md").read_text(encoding="utf-8"))
    assert [question.title for question in questions if not question.title.endswith("?")] == []
    assert len(questions) >= ENOUGH_QUESTIONS
