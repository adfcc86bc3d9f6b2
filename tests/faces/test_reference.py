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
    *("templates", "add-table", "delete-table", "reinitialise-table", "set-online", "set-offline"),
    *("export-split-points", "instances", "add-instance"),
}
"""Commands that no method does: of notebooks and consoles, and the names of Sleeper's scripts."""


def test_a_command_a_method_and_a_procedure_that_do_the_same_have_the_same_name():
    words = {command.name: reference_page.python_word(command) for command in COMMANDS.commands}
    assert {name for name, word in words.items() if not word} == OF_FACES
    for procedure in PROCEDURES:
        name = procedure.name.removesuffix("_all").replace("_", "-")
        if name in words:
            assert words[name].removeprefix("table.").removeprefix("session.") == procedure.method
        else:
            assert procedure.method.rpartition(".")[2] == procedure.name


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
