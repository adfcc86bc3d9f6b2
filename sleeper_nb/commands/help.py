"""The pages of `help`: all commands by group, or one command with its arguments and examples."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sleeper_nb.commands.command import OUTPUT, Argument, Command, CommandGroup, option
from sleeper_nb.report import Grid, Report

WIDTH = 80
EXAMPLE = "example"
_WIDEST_NAME = 26
_BRACKETS = re.compile(r"\[[^]]*\]")
_JOINED = "\0"
"""Stands for a space at which a line must not be broken."""

ON_CONSOLE = (
    option("--warehouse", text="its folder; if not given: SLEEPER_WAREHOUSE, sleeper.toml, then ./warehouse",
           kind="path"),
    option("--instance", text="which of its instances; default if not given"),
)  # fmt: skip
"""Options that every command of the console takes."""


@dataclass(frozen=True, slots=True, repr=False)
class HelpPage(Report):
    """Names and their explanations, in sections: as text folded to the width of a terminal, in a notebook as tables."""

    sections: tuple[Grid, ...]

    def grid(self) -> Grid:
        """Return the rows of all sections, one row a name."""
        first, last = self.sections[0], self.sections[-1]
        title = first.title if len(self.sections) == 1 else ""
        return Grid(first.columns, tuple(row for part in self.sections for row in part.rows), title, last.footer)

    def to_dict(self) -> dict[str, Any]:
        """Return each explanation by its name; an example and the lines below it are one text."""
        texts: dict[str, Any] = {}
        last = ""
        for name, text in self.grid().rows:
            last = str(name) or last
            texts[last] = f"{texts[last]}\n{text}" if last in texts else str(text)
        return texts

    def __repr__(self) -> str:
        indent = "  " if len(self.sections) > 1 else ""
        width = len(indent) + min(_WIDEST_NAME, max(len(str(name)) for name, _ in self.grid().rows))
        return "\n\n".join("\n".join(_fold(part, indent, width)) for part in self.sections)

    def _repr_html_(self) -> str:
        return "".join(part.html() for part in self.sections)


def _fold(section: Grid, indent: str, width: int) -> Iterator[str]:
    """Yield the lines of a section, with its names in a column of a width, indent included."""
    yield from textwrap.wrap(section.title, WIDTH)
    in_examples = False
    for name, text in (tuple(map(str, row)) for row in section.rows):
        if name == EXAMPLE or in_examples:  # never folded, so that they can be copied
            if not in_examples:
                yield f"{EXAMPLE}s"
            in_examples = True
            yield f"  {text}"
        else:
            yield from _fold_row(f"{indent}{name}", text, width)
    yield from textwrap.wrap(section.footer, WIDTH)


def _fold_row(name: str, text: str, width: int) -> Iterator[str]:
    """Yield the lines of a name and its text; a text in brackets stays on one line."""
    joined = _BRACKETS.sub(lambda match: match[0].replace(" ", _JOINED), text)
    lines = textwrap.wrap(joined, WIDTH - width - 2, break_long_words=False, break_on_hyphens=False) or [""]
    if len(name) > width:
        yield name
        name = ""
    for line in lines:
        yield f"{name:{width}}  {line.replace(_JOINED, ' ')}".rstrip()
        name = ""


def overview(groups: tuple[CommandGroup, ...], prefix: str) -> HelpPage:
    """Return one section for each group of commands, as they are typed after `prefix`."""
    sections = [
        Grid(("", ""), tuple((command.name, command.brief) for command in group.commands), group.title)
        for group in groups
    ]
    if not prefix.startswith("%"):
        rows = [(f"{option.names[0]} {option.value}", option.help) for option in ON_CONSOLE]
        rows.append(("--version", "print the version and exit"))
        sections.append(Grid(("", ""), tuple(rows), "Options of every command"))
    footer = f"{prefix} help COMMAND shows the arguments and examples of a command"
    sections.append(Grid((), (), footer=footer))
    return HelpPage(tuple(sections))


def describe(command: Command, prefix: str) -> HelpPage:
    """Return a command's arguments and examples, as they are typed after `prefix`."""
    arguments = (*command.arguments, *((OUTPUT,) if prefix.startswith("%") else ()))
    rows = [("usage", f"{prefix} {command.usage}"), *map(_argument_row, arguments)]
    for example in command.examples:
        first, *body = example.splitlines()
        if body and not prefix.startswith("%"):
            continue  # a console has no cells
        rows.append((EXAMPLE, f"{'%' if body else ''}{prefix} {first}"))
        rows += [("", line) for line in body]
    if not prefix.startswith("%"):
        rows += [(EXAMPLE, f"{prefix} {example}") for example in command.on_console]
    return HelpPage((Grid(("", ""), tuple(rows), f"{command.name}: {command.summary}"),))


def _argument_row(argument: Argument) -> tuple[str, str]:
    names = ", ".join(argument.names) if argument.is_option else argument.usage
    value = argument.value if argument.takes_value else ""
    is_abridged = argument.choices and "|".join(argument.choices) != argument.value
    choices = f": {', '.join(argument.choices)}" if is_abridged else ""
    default = "" if argument.default is None else f" ({argument.default})"
    return f"{names} {value}".strip(), argument.help + choices + default
