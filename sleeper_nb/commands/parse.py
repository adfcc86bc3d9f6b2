"""Parse what was typed into a command and its arguments.

The line of a magic and the words of a console are read in the same way: the command, its positional arguments and
options, and for `sql` and `inspect` the rest of the line, untouched. `argparse` reads the words before that rest.
"""

from __future__ import annotations

import argparse
import difflib
import io
import re
import shlex
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sleeper_nb.commands.command import OUTPUT, READ_KEYS, Argument, Command, CommandGroup, in_quotes
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import Action, Hint, InvalidInput, NotFound, SleeperError, show_for
from sleeper_nb.report import Report, report_for
from sleeper_nb.sql_text import is_writing, last_comment

HELP = ("-h", "--help")
_COMMENT = re.compile(r"--(\s|$)")
_OPTION_AND_VALUE = re.compile(r"(--[a-z-]+)=")
_IN_QUOTES = re.compile(rf"""({_OPTION_AND_VALUE.pattern})?('[^']*'|"([^"\\]|\\.)*")""", re.DOTALL)
"""A word that is in quotes as a whole."""
_LONG = re.compile(r"--[a-z]")
_COMPARING = ("=", "<", ">", "!")
_OPERATORS = {"and", "or", "is", "in", "not", "like", "ilike", "between"}
"""What follows a value of a condition that was cut at a space."""
_NEEDED = {"T": "a table", "T[@REF]": "a table", "TABLE-NAME": "a table", "SRC": "data", "FILES": "files",
           "TO": "a file or folder to write"}  # fmt: skip
_LONG_FOR = {"-n": "--limit"}
"""Short options of other tools, by which users know our long ones."""
_LONGEST_USAGE = 160  # characters in a hint


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command and its arguments."""

    command: Command
    arguments: Namespace

    @property
    def interrupted(self) -> str:
        """The message after an interrupt."""
        sql = self.command.sql
        text = "" if sql is None else getattr(self.arguments, sql.dest, "")
        may_change = not self.command.reads_only or is_writing(text)
        return "Interrupted. Earlier commits are kept." if may_change else "Interrupted. Nothing was changed."

    @property
    def is_free(self) -> bool:
        """Whether it needs no open warehouse."""
        free = self.command.free
        return self.command.warehouse == "none" or bool(free and getattr(self.arguments, free))

    def run(self, context: Context) -> Any:
        """Run it and return its value; ``-o`` also keeps that in a variable.

        Reports and errors get the actions that they name as they are typed at the face of the context.
        """
        try:
            return self._run(context)
        except SleeperError as error:
            context.say_where(error)
            show_for(error, context.prefix)
            raise

    def _run(self, context: Context) -> Any:
        name = getattr(self.arguments, OUTPUT.dest)
        if name is not None:
            context.check_assignable(name)
        value = self.command.run(context, self.arguments)
        if isinstance(value, Report):
            value = report_for(value, context.prefix)
        if name is not None and context.variables is not None:
            context.variables[name] = value
        return value


class CommandTable:
    """All commands, by groups, in the order of the help."""

    def __init__(self, groups: tuple[CommandGroup, ...]) -> None:
        self.groups = groups
        self.commands = tuple(command for group in groups for command in group.commands)
        self.by_name = {command.name: command for command in self.commands}

    def find(self, word: str, following: Sequence[str] = ()) -> Command:
        """Return a command by its name; `NotFound` suggests a command for a misspelt word or a synonym.

        Or for the word that follows, where a table was written before the command.
        """
        if word in self.by_name:
            return self.by_name[word]
        if word == "show" and following and following[0] in self.by_name:  # as SQL says it
            raise NotFound(f"no command {word!r}", hint=("did you mean ", Action(following[0]), "?"))
        synonyms = [command.name for command in self.commands if word.lower() in command.words]
        if synonyms:
            raise NotFound(f"no command {word!r}", hint=f"did you mean {' or '.join(map(repr, synonyms))}?")
        near = difflib.get_close_matches(word, self.by_name, n=1, cutoff=0.6)
        hint: Hint = f"did you mean {near[0]!r}?" if near else (Action("help"), " lists the commands")
        if following and following[0] in self.by_name and not near:
            hint = ("the command comes first: ", Action(f"{following[0]} {word}"))
        raise NotFound(f"no command {word!r}", hint=hint)

    def parse_line(self, line: str, body: str | None = None) -> Invocation:
        """Parse what was typed after ``%sleeper``.

        Parameters
        ----------
        line
            The line.
        body
            The lines below it in a ``%%sleeper`` cell; None or blank when there are none.
        """
        return self._parse(_Text(line), body)

    def parse_argv(self, words: Sequence[str], shared: tuple[Argument, ...] = ()) -> Invocation:
        """Parse the words of a console; every command takes the `shared` options too."""
        return self._parse(_Words(list(words)), None, shared)

    def _parse(self, typed: _Text | _Words, body: str | None, shared: tuple[Argument, ...] = ()) -> Invocation:
        nothing = typed.is_empty()
        first = "help" if nothing else typed.take()
        command = self.find("help" if first in HELP else first, typed.rest().split())
        own = {name for argument in command.arguments for name in argument.names}
        extra = tuple(argument for argument in (*shared, OUTPUT) if argument.names[0] not in own)
        words, rest = _split(typed, command, extra)
        if set(HELP) & set(words):
            return Invocation(self.find("help"), Namespace(command=command.name, output=None))
        has_body = bool(body and body.strip())
        if has_body and nothing:
            raise InvalidInput("%%sleeper needs a command", hint="write %%sleeper sql, and the query below it")
        if has_body and not command.body:
            raise InvalidInput(f"{command.name} takes no lines below it", hint=("write ", Action(command.usage)))
        written = typed.written[1:][: len(words)]
        arguments = _arguments(command, extra, words, written)
        arguments.words = (first, *words)  # for a plan that shows the line to type
        arguments.written = written
        if command.sql is None:
            arguments.body = body if has_body else None
        else:
            if not has_body:
                known = {*HELP, *command.options, *(name for argument in extra for name in argument.names)}
                _check_comment(rest, known)
            setattr(arguments, command.sql.dest, "\n".join(filter(None, (rest, body if has_body else None))))
            if not getattr(arguments, command.sql.dest).strip():
                raise InvalidInput(f"{command.name} needs a query", hint=_usage(command))
        return Invocation(command, arguments)


class _Text:
    """A line, read word by word so that SQL after the last word is never touched."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self.written: list[str] = []
        """The words that were taken, as they were typed."""

    def is_empty(self) -> bool:
        return not self._text

    def looks_like_option(self) -> bool:
        return self._text.startswith("-") and not _COMMENT.match(self._text)

    def take(self, *, is_sql: bool = False) -> str:
        """Take a word without its quotes; of a word in SQL, only those around the whole word are not SQL's own."""
        stream = io.StringIO(self._text)
        lexer = shlex.shlex(stream, posix=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            word = lexer.get_token() or ""
        except ValueError as error:
            hint = """close it; a quote inside a text goes into the other kind: "it's in\""""
            raise InvalidInput(f"a quote is not closed: {self._text[:40]}", hint=hint) from error
        self.written.append(self._text[: stream.tell()].strip())
        self._text = self._text[stream.tell() :].lstrip()
        return word if not is_sql or _IN_QUOTES.fullmatch(self.written[-1]) else self.written[-1]

    def rest(self) -> str:
        return self._text

    def take_options_after_sql(self, options: Collection[str]) -> list[str]:  # noqa: ARG002 - see `_Words`
        return []  # in a line, SQL and options cannot be told apart


class _Words:
    """Words that a console has already separated."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self.written: list[str] = []

    def is_empty(self) -> bool:
        return not self._words

    def looks_like_option(self) -> bool:
        word = self._words[0]  # "-" alone is standard input
        return word.startswith("-") and word != "-" and not _COMMENT.match(word)

    def take(self, *, is_sql: bool = False) -> str:  # noqa: ARG002 - the shell has taken the quotes away
        self.written.append(self._words[0])
        return self._words.pop(0)

    def rest(self) -> str:
        return " ".join(self._words)

    def take_options_after_sql(self, options: Collection[str]) -> list[str]:
        """Take the options after a statement; after one in quotes, which is one word, only options can follow."""
        is_whole = len(self._words[0].split()) > 1 if self._words else False
        for i, word in enumerate(self._words[1:], 1):
            is_long, is_known = _LONG.match(word), word.partition("=")[0] in options
            if (is_long and is_known) or (is_whole and (is_long or is_known)):
                taken, self._words = self._words[i:], self._words[:i]
                self.written += taken
                return taken
        return []


def move_shared_last(words: list[str], shared: Collection[str]) -> list[str]:
    """Move options that every command takes from before the command to after it, where its own are."""
    leading: list[str] = []
    while words and words[0].partition("=")[0] in shared:
        count = 1 if "=" in words[0] else 2
        leading, words = leading + words[:count], words[count:]
    return [*words[:1], *leading, *words[1:]] if words else leading


def _split(typed: _Text | _Words, command: Command, extra: tuple[Argument, ...]) -> tuple[list[str], str]:
    """Return the words of the command, including options after the SQL, and the rest of the line."""
    options = {**command.options, **{name: argument for argument in extra for name in argument.names}}
    words: list[str] = []
    places, value_follows = len(command.positionals), False
    while not typed.is_empty():
        is_option = not value_follows and typed.looks_like_option()
        if command.sql is not None and places == 0 and not is_option and not value_follows:
            break
        word = typed.take(is_sql=_is_sql_next(typed, options, words[-1] if value_follows else ""))
        words.append(word)
        places -= not is_option and not value_follows
        value_follows = is_option and word in options and options[word].takes_value
        if value_follows and options[word].bare is not None:
            value_follows = typed.rest().partition(" ")[0] in options[word].choices
    if command.sql is not None:
        words += typed.take_options_after_sql({*HELP, *options})
    return words, typed.rest()


def _is_sql_next(typed: _Text | _Words, options: Mapping[str, Argument], before: str) -> bool:
    """Return whether the next word is a condition: of the option before it, or as ``--where=…``."""
    together = _OPTION_AND_VALUE.match(typed.rest())
    argument = options.get(before or (together[1] if together else ""))
    return argument is not None and argument.kind == "condition"


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises our errors and never ends the process."""

    def __init__(self, name: str, usage_hint: str) -> None:
        # with a usage given, argparse does not write one for each line; errors show `usage_hint`
        super().__init__(name, usage=name, add_help=False, allow_abbrev=False)
        self.usage_hint = usage_hint

    def _get_values(self, action: Any, arg_strings: list[str]) -> Any:
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            return "--"  # of --null-text=--, which argparse takes for the end of the options
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        if missing := re.fullmatch(r"the following arguments are required: (.*)", message):
            message = f"needs {', '.join(map(_needed, missing[1].split(', ')))}"
        elif value := re.fullmatch(r"argument ([^/]+).*: expected one argument", message):
            message = f"{value[1]} needs a value"
        raise InvalidInput(f"{self.prog} {message}", hint=self.usage_hint)


def _needed(metavar: str) -> str:
    """Return what a command lacks, in words where its metavar is short."""
    return _NEEDED.get(metavar, metavar)


class _Once(argparse.Action):
    """Stores the value of an option; a second value would silently replace the first, and raises."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, option_string: str | None = None) -> None:
        if self.dest in namespace.given_once:
            problem = f"{parser.prog} has {option_string} twice"
            raise InvalidInput(problem, hint=f"give {option_string} once; {parser.usage_hint}")
        namespace.given_once.add(self.dest)
        setattr(namespace, self.dest, values)


def _arguments(command: Command, extra: tuple[Argument, ...], words: list[str], written: list[str]) -> Namespace:
    """Return the values of a command's arguments, checked."""
    known = tuple(argument for argument in (*command.arguments, *extra) if argument.kind != "sql")
    parser = _parser(command, known)
    check_quotes(words, written, lambda at: _is_cut_value(command, words, at))
    values, left = parser.parse_known_intermixed_args(words, Namespace(given_once=set()))
    del values.given_once
    if left:
        check_quotes(words, written, lambda at: _is_cut_value(command, words, at, left))
        options = [name for argument in known if argument.is_option for name in argument.names]
        _reject(left[0], command, options)
    for argument in known:
        _check_value(argument, values, command)
    _check_together(command, values)
    if command.check is not None:
        command.check(values)
    return values


def _parser(command: Command, known: tuple[Argument, ...]) -> _Parser:
    parser = _Parser(command.name, _usage(command))
    for argument in known:
        settings: dict[str, Any] = {} if argument.is_flag else {"default": argument.default}
        if argument.is_flag:
            settings["action"] = "store_true"
        elif argument.is_option and argument.many:
            settings = {"action": "append", "default": []}
        elif argument.is_option:
            settings["action"] = _Once
            if argument.bare is not None:
                settings |= {"nargs": "?", "const": argument.bare}
        else:
            settings |= {"metavar": argument.metavar or argument.dest.upper(), "nargs": _count(argument)}
        parser.add_argument(*argument.names, **settings)
    return parser


_ENDS = re.compile(r"--?[a-z]|\$")
"""An option or a variable, with which a value ends that has no quotes."""


def check_quotes(
    words: Sequence[str], written: Sequence[str], is_cut: Callable[[int], bool], ends: re.Pattern[str] = _ENDS
) -> None:
    """Raise `InvalidInput` for a value with spaces that was typed without quotes; the hint is the value with them.

    Parameters
    ----------
    words, written
        The words after a command, without their quotes and as they were typed.
    is_cut
        Returns whether the value that begins at a word goes on after it.
    ends
        Matches the words that can follow a value.
    """
    for start in range(len(words) - 1):
        if is_cut(start):
            end = next((at for at in range(start + 1, len(words)) if ends.match(words[at])), len(words))
            named = start and words[start - 1].startswith("-")
            name = words[start - 1] if named else words[start].partition("=")[0]
            whole = in_quotes(" ".join(written[start:end]))
            raise InvalidInput(
                f"the value of {name} has spaces, so it needs quotes",
                hint=f"write {name} {whole}" if named else f"write {whole}",
            )


def _is_cut_value(command: Command, words: Sequence[str], at: int, left: Collection[str] = ()) -> bool:
    """Return whether a word is a value with spaces that goes on: as the next word is left over, or an operator."""
    argument = command.options.get(words[at - 1]) if at else None
    if argument is None or not argument.metavar.startswith('"'):
        return False
    value, following = words[at], words[at + 1]
    if _ENDS.match(following):
        return False
    is_condition = value[-1:] in _COMPARING or following[:1] in _COMPARING or following.casefold() in _OPERATORS
    return following in left or is_condition


def _count(argument: Argument) -> str | None:
    if argument.many:
        return "*" if argument.optional or argument.unless else "+"
    return "?" if argument.optional or argument.unless else None


def _reject(word: str, command: Command, options: list[str]) -> NoReturn:
    if word.startswith("-"):
        name = word.partition("=")[0]
        near = _near_options(name, options)
        hint: Hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _usage(command)
        if "--read" in options and name.removeprefix("--") in READ_KEYS:
            hint = f"write --read {name.removeprefix('--')}=VALUE"
        raise InvalidInput(f"{command.name} has no option {name!r}", hint=command.instead.get(name, hint))
    takes_data = next((each.names[-1] for each in command.arguments if each.is_option and each.kind == "source"), None)
    if takes_data and (word.startswith("$") or Path(word).expanduser().exists()):
        shown = word if word.startswith("$") else shlex.quote(word)
        raise InvalidInput(f"{command.name} cannot use {word!r}", hint=f"write {takes_data} {shown}")
    raise InvalidInput(f"{command.name} cannot use {word!r}", hint=command.instead.get("", _usage(command)))


def _near_options(name: str, options: list[str]) -> list[str]:
    """Return the long options that an unknown one may mean; for a short one, those with its initial."""
    long = [option for option in options if option.startswith("--")]
    if name.startswith("--"):
        words = [option[2:] for option in long]  # compared without the dashes, which all have
        near = difflib.get_close_matches(name[2:], words, n=1, cutoff=0.7)
        return [f"--{each}" for each in near] or [option for option in long if option.startswith(name)][:1]
    initial = _LONG_FOR.get(name[:2], f"-{name[:2]}")
    return [option for option in long if option.startswith(initial)][:3]


def _check_value(argument: Argument, values: Namespace, command: Command) -> None:
    """Raise `InvalidInput` for a value that is missing or not a choice; convert the text of a number."""
    value = getattr(values, argument.dest)
    if value in (None, []) and argument.unless and not getattr(values, argument.unless):
        needed = f"{_needed(argument.metavar)}, or --{argument.unless}"
        raise InvalidInput(f"{command.name} needs {needed}", hint=_usage(command))
    if argument.choices and value not in {None, argument.bare} and value not in argument.choices:
        kind = re.sub("[-_]", " ", argument.metavar or argument.dest)
        near = NotFound.of(kind, value, argument.choices)
        is_named = bool(argument.metavar) or not argument.is_option
        message = near.message if is_named else f"{argument.names[-1]} cannot be {value!r}"
        raise InvalidInput(message, hint=near.hint_parts)
    if argument.kind == "number" and isinstance(value, str):
        if not re.fullmatch(r"-?\d+", value, re.ASCII):
            name = argument.names[-1]
            raise InvalidInput(f"{command.name} {name} needs a whole number, not {value!r}", hint=_usage(command))
        setattr(values, argument.dest, int(value))


def _usage(command: Command) -> str:
    """Return a hint in one line: a command with many options refers to its help."""
    usage = f"usage: {command.usage}"
    return (
        usage if len(usage) <= _LONGEST_USAGE else f"usage: {command.brief_usage}; for the options: {command.name} -h"
    )


def _check_together(command: Command, arguments: Namespace) -> None:
    """Raise `InvalidInput` for two options with different answers, and for one without the option that it needs."""
    given = [a for a in command.arguments if a.is_option and getattr(arguments, a.dest) not in (None, False, [])]
    answering = [argument for argument in given if argument.answer]
    for other in answering[1:]:
        if other.answer != answering[0].answer:
            first, second = (f"{argument.names[-1]} {argument.answer}" for argument in (answering[0], other))
            raise InvalidInput(f"{first}, but {second}", hint="give one of them")
    names = {name for argument in given for name in argument.names}
    for argument in given:
        if argument.only_with and argument.only_with not in names:
            both = (command.options[argument.only_with], argument)
            written = " ".join(each.usage.strip("[…").removesuffix("]") for each in both)
            hint = f"leave it out, or write {command.name} {written}"
            raise InvalidInput(f"{argument.names[0]} needs {argument.only_with}", hint=hint)


def _check_comment(sql: str, options: Collection[str]) -> None:
    """Raise `InvalidInput` when an option of the command stands after its SQL, where it would be a comment."""
    comment = "" if "\n" in sql.strip() else last_comment(sql)
    name = comment.partition(" ")[0].partition("=")[0]
    if name in options:
        raise InvalidInput(f"{name} after the SQL begins a comment", hint=f"write {comment} before the statement")
