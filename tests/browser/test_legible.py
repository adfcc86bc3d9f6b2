"""What judges the widgets finds what is wrong, and nothing else."""

from __future__ import annotations

import pytest

from tests.browser.legible import hard_to_read, nameless

pytestmark = pytest.mark.browser
PAGE = """
<body style="background: #111; color: #fff"><div id="widget">
<p>fine</p> <p style="color: #555">faint</p> <p style="opacity: 0.3">faded</p>
<p style="background: rgba(255, 255, 255, 0.9)">white on white</p>
<svg role="img" aria-label="picture" fill="currentColor" width="300" height="40">
  <rect width="100" height="40" fill="#fff"/><rect x="100" width="100" height="40" fill="#fff" fill-opacity="0.1"/>
  <g pointer-events="none"><text x="5" y="20">over light</text><text x="105" y="20">over dark</text></g>
  <text x="205" y="20" fill="#666">●</text><text x="235" y="20" fill="#777">dim words</text>
</svg>
<svg role="img" width="9" height="9"><rect width="9" height="9"/></svg>
<input placeholder="hint" style="background: #fff"> <input aria-label="named" value="pale" style="color: #ccc">
<button style="color: #000" title="by its title"><i></i></button> <button disabled style="color: #777">off</button>
<select style="background: #000; color: #fff"><option>one</option></select>
<p style="display: none; color: #111">unseen</p>
</div></body>
"""


def test_texts_of_little_contrast_and_controls_without_names_are_found(chromium):
    page = chromium.new_page()
    page.set_content(PAGE)
    widget = page.locator("#widget")
    found = {text.rpartition(":")[0] for text in hard_to_read(widget)}
    assert found == {"faint", "faded", "white on white", "over light", "dim words", "pale"}
    assert sorted(nameless(widget)) == ["combobox", "image"]
    page.close()
