"""The settings of Sphinx: a site that needs no network, with one more kind of thing that it finds, properties."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import TYPE_CHECKING

from docutils.nodes import Text
from sphinx.addnodes import pending_xref

import sleeper_nb

if TYPE_CHECKING:
    from docutils.nodes import document
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "sleeper_nb"
author = "The sleeper_nb developers"
version = release = sleeper_nb.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns: list[str] = []

html_theme = "furo"
html_title = f"sleeper_nb {version}"
html_static_path = [str(ROOT / "docs" / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "tango", "monokai"

smartquotes = False  # a command is typed with the quotes that are shown
highlight_language = "text"
default_role = "literal"  # single backticks in docstrings
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]

autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
python_display_short_literal_types = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Returns", "Yields"]  # ours are prose, without a line for the type

copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Sphinx) -> None:
    """Add the directive ``property``: a name of `sleeper_nb.model.properties`, with its effect."""
    app.add_object_type("property", "property", objname="property")
    app.registry.domain_object_types["std"]["property"].attrs["searchprio"] = 0  # above pages that mention it
    app.connect("doctree-read", unlink_builtins)
    app.connect("doctree-read", with_dashes)


def unlink_builtins(_: Sphinx, doctree: document) -> None:
    """Make types such as bytes plain text: Sphinx would look for an attribute of that name in any class."""
    for reference in list(doctree.findall(pending_xref)):
        if reference.get("reftarget") in vars(builtins):
            reference.replace_self(reference.children)


def with_dashes(_: Sphinx, doctree: document) -> None:
    """Put a dash between a parameter and its description, which the smart quotes that are off would have done."""
    for text in list(doctree.findall(Text)):
        if text == " -- ":
            text.parent.replace(text, Text(" – "))
