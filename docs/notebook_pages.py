"""Turns a notebook into Markdown for Sphinx: its texts, its code, and its saved outputs as they are."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbconvert.exporters import MarkdownExporter
from traitlets.config import Config

WIDGET = "application/vnd.jupyter.widget-view+json"
_TEMPLATE = """{% extends 'markdown/index.md.j2' %}
{% block input %}
~~~~~ipython3
{{ cell.source }}
~~~~~
{% endblock input %}
{% block stream %}
~~~~~text
{{ output.text | strip_ansi }}
~~~~~
{% endblock stream %}
{% block data_text scoped %}
~~~~~text
{{ output.data['text/plain'] }}
~~~~~
{% endblock data_text %}
{% block error %}
~~~~~text
{{ output.ename }}: {{ output.evalue | strip_ansi }}
~~~~~
{% endblock error %}
{% block data_html scoped %}
~~~~~{raw} html
<div class="notebook-output">
{{ output.data['text/html'] }}
</div>
~~~~~
{% endblock data_html %}
{% block data_png scoped %}
![A chart of the answer]({{ output.metadata.filenames['image/png'] }})
{% endblock data_png %}
"""
"""Outputs are in fences of tildes, which no output of ours has."""


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by the names that the Markdown has.

    A widget needs a kernel. Its saved picture is in the output before it, so its own output is left out.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    exporter = MarkdownExporter(
        raw_template=_TEMPLATE,
        config=Config(NbConvertBase={"display_data_priority": ["image/png", "text/html", "text/plain"]}),
    )
    text, resources = exporter.from_notebook_node(
        notebook, resources={"output_files_dir": f"{path.stem}_files", "unique_key": path.stem}
    )
    return text, dict(resources.get("outputs", {}))
