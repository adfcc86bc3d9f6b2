"""The pictures in Chromium on narrow and wide pages: every number that is seen is whole, or ends with an ellipsis."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.display.timeline_picture import timeline

pytestmark = pytest.mark.browser
LOOK = """() => {
    const found = {cut: [], seen: []};
    for (const svg of document.querySelectorAll("svg[role=img]")) {
        for (const text of svg.querySelectorAll("text, .sleeper-words.clipped, .sleeper-words > span")) {
            if (!text.textContent.trim()) continue;
            const holder = text.closest("foreignObject") || (text.closest("svg"));
            const edge = svg.getBoundingClientRect(), inner = holder.getBoundingClientRect();
            const place = text.classList.contains("clipped") ? inner : text.getBoundingClientRect();
            const box = text.tagName === "text" && holder === svg ? edge : inner;
            const line = text.closest(".sleeper-words");
            const bottom = line ? line.getBoundingClientRect().bottom : box.bottom;
            if (place.top >= bottom - 1 || place.width === 0) continue;  // it went on in a line that is not seen
            const inside = place.left >= box.left - 1 && place.right <= Math.min(box.right, edge.right) + 1;
            const ellipsis = text.classList.contains("clipped") && getComputedStyle(text).textOverflow === "ellipsis";
            if (!inside || (text.scrollWidth > text.clientWidth + 1 && text.tagName !== "text" && !ellipsis
                            && getComputedStyle(text).display !== "inline")) found.cut.push(text.textContent);
            else found.seen.push(text.textContent);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    with sl.connect(tmp_path_factory.mktemp("w"), clock=ManualClock()) as session:
        schema = sl.Schema({"carrier": "string", "flight": "long"}, {})
        table = session.create_table("t", schema, ["AA", "B6", "DL", "EV", "MQ", "UA"])
        for carrier in ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "WN"):
            table.ingest(pa.table({"carrier": [carrier] * 12_345, "flight": range(12_345)}))
            table.create_savepoint(f"year-{carrier}-20131231")
        for leaf in (2, 5):
            table.maintenance.split(at=4407, key="flight", partition=table.inspect.partitions()[leaf]["partition_id"])
        yield {
            "partitions": table.inspect.partitions().picture,
            "files": table.inspect.files().picture,
            "timeline": timeline(tuple(table.history()), tuple(table.savepoints()), name="t"),
        }


@pytest.mark.parametrize("width", [260, 410, 560, 1080])
def test_no_number_of_a_picture_is_cut(chromium, pictures, width):
    page = chromium.new_page(viewport={"width": width, "height": 900})
    for name, picture in pictures.items():
        page.set_content(f'<body style="margin:0;font-family:sans-serif">{picture}</body>')
        found = page.evaluate(LOOK)
        assert found["cut"] == [], name
        assert width < 1080 or len(found["seen"]) > 8, name
    page.close()


def test_the_still_image_has_the_same_words(chromium, pictures):
    page = chromium.new_page(viewport={"width": 1080, "height": 900})
    for name, picture in pictures.items():
        begin = picture.index('src="data:image/svg+xml') + len('src="')
        page.goto(picture[begin : picture.index('"', begin)])
        assert page.evaluate("() => document.documentElement.localName") == "svg", name
        boxes = "() => [...document.querySelectorAll('.sleeper-words')].map(e => e.getBoundingClientRect().height)"
        assert all(height >= 12 for height in page.evaluate(boxes)), name
        assert len(page.evaluate(boxes)) > 2, name
    page.close()
