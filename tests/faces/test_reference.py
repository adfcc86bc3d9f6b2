"""The reference page is made of the command table and the properties, and is current."""

from __future__ import annotations

from docs import reference_page
from sleeper_nb.commands import COMMANDS
from sleeper_nb.model.properties import INSTANCE_PROPERTIES, PROPERTIES
from sleeper_nb.session.procedures import PROCEDURES


def test_the_page_is_current():
    assert reference_page.PAGE.read_text(encoding="utf-8") == reference_page.page(), (
        "run python -m docs.regenerate reference"
    )


OF_FACES = {
    *(
        "use",
        "help",
        "why",
        "demo",
        "tour",
        "autoload",
        "completion",
    ),
    *("templates", "instances", "add-instance"),
}
"""Commands that no method does: of notebooks and consoles."""


def test_a_command_a_method_and_a_procedure_that_do_the_same_have_the_same_name():
    commands = [command for command in COMMANDS.commands if not command.alias]
    words = {command.name: reference_page.python_word(command) for command in commands}
    assert len(words) - len(OF_FACES) == 48
    assert {name for name, word in words.items() if not word} == OF_FACES
    for procedure in PROCEDURES:
        name = procedure.name.removesuffix("_all").replace("_", "-")
        if name in words:
            assert words[name].removeprefix("table.").removeprefix("session.") == procedure.method
        else:
            assert procedure.method.rpartition(".")[2] == procedure.name


def test_each_script_of_sleeper_is_another_name_of_a_command():
    named = {command.name: command.alias for command in COMMANDS.commands if command.alias}
    assert named == {
        "add-table": "create",
        "rename-table": "rename",
        "delete-table": "drop",
        "reinitialise-table": "reinitialise",
        "set-online": "online",
        "set-offline": "offline",
    }
    text = reference_page.page()
    assert all(f"| `{name} INSTANCE-ID " in text for name in named)


def test_no_command_has_more_options_than_a_reader_can_hold():
    options = {each.name: sum(one.is_option for one in each.arguments) for each in COMMANDS.commands}
    assert max(options.values()) == options["create"] == 20


def test_each_command_option_and_property_is_in_it(tmp_path):
    reference_page.write(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    for part in COMMANDS.commands:
        section = text.partition(f"### {part.name}\n")[2].partition("\n### ")[0].replace(r"\|", "|")
        for argument in part.arguments:
            assert all(f"`{name}`" in section for name in argument.names) or f"`{argument.usage}`" in section
            assert argument.help in section
    for known in (*PROPERTIES.values(), *INSTANCE_PROPERTIES.values()):
        row = next(line for line in text.splitlines() if line.startswith(f"| `{known.name}` |"))
        assert all(said in row for said in (known.kind, known.default, known.effect))
