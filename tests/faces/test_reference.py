"""The reference page is made of the command table and the properties, and is current."""

from __future__ import annotations

from docs import reference_page
from sleeper_nb.commands import COMMANDS
from sleeper_nb.model.properties import INSTANCE_PROPERTIES, PROPERTIES


def test_the_page_is_current():
    assert reference_page.PAGE.read_text(encoding="utf-8") == reference_page.page(), (
        "run python -m docs.regenerate reference"
    )


def test_each_command_option_and_property_is_in_it(tmp_path):
    reference_page.write(tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    for part in COMMANDS.commands:
        section = text.partition(f"### {part.name}\n")[2].partition("\n### ")[0].replace(r"\|", "|")
        assert all(f"`{alias}`" in section for alias in part.aliases)
        for argument in part.arguments:
            assert all(f"`{name}`" in section for name in argument.names) or f"`{argument.usage}`" in section
            assert argument.help in section
    for known in (*PROPERTIES.values(), *INSTANCE_PROPERTIES.values()):
        row = next(line for line in text.splitlines() if line.startswith(f"| `{known.name}` |"))
        assert all(said in row for said in (known.kind, known.default, known.effect))
