"""What of a widget cannot be read or has no name: contrast as WCAG 2 computes it, names as the browser tells them."""

from __future__ import annotations

from typing import Any

_CONTRAST = """root => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const clear = [0, 0, 0, 0];
    const colour = text => {  // whatever CSS can say, as red, green, blue and alpha
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const faded = ([r, g, b, a], by) => [r, g, b, a * by];
    const over = (top, below) => {
        const a = top[3] + below[3] * (1 - top[3]);
        const mixed = i => a ? (top[i] * top[3] + below[i] * below[3] * (1 - top[3])) / a : 0;
        return [mixed(0), mixed(1), mixed(2), a];
    };
    const luminance = rgb => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
        const part = rgb[i] / 255;
        return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    }, 0);
    const filled = style => style.fill === 'none' ? clear : faded(colour(style.fill), Number(style.fillOpacity));
    const picture = element => element.closest('svg[role=img]');
    const shapes = (element, x, y) => document.elementsFromPoint(x, y)
        .filter(each => picture(each) === picture(element) && each.matches('rect, path'))
        .reduceRight((below, each) => over(filled(getComputedStyle(each)), below), clear);
    const ratio = (element, ink, behind) => {  // ink and what is behind it, each mixed with all that they lie on
        let [text, ground] = [over(ink, behind), behind];
        for (let at = element; at; at = at.parentElement) {
            const style = getComputedStyle(at);
            const box = at instanceof SVGElement ? clear : colour(style.backgroundColor);
            [text, ground] = [text, ground].map(each => faded(over(each, box), Number(style.opacity)));
        }
        const [a, b] = [text, ground].map(each => luminance(over(each, [255, 255, 255, 1])));
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    const found = new Set();
    const hold = (words, element, ink, behinds) => {
        const worst = Math.min(...behinds.map(behind => ratio(element, ink, behind)));
        const least = /[\\p{L}\\p{N}]/u.test(words) ? 4.5 : 3;  // a shape needs less than words
        if (worst < least) { found.add(`${words.trim().slice(0, 40)}: ${worst.toFixed(2)}`); }
    };
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const [node, element] = [walker.currentNode, walker.currentNode.parentElement];
        if (!node.data.trim() || element.closest('style, title, :disabled') || !element.checkVisibility()) { continue; }
        const style = getComputedStyle(element);
        if (element instanceof SVGElement) {
            element.scrollIntoView({block: 'center'});
            const {left, right, top, bottom} = element.getBoundingClientRect();
            const places = [left + 1, (left + right) / 2, right - 1];
            hold(node.data, element, filled(style), places.map(x => shapes(element, x, (top + bottom) / 2)));
        } else {
            hold(node.data, element, colour(style.color), [clear]);
        }
    }
    for (const each of root.querySelectorAll('input, textarea, select')) {
        if (each.disabled || !each.checkVisibility()) { continue; }
        const style = getComputedStyle(each, each.value || !each.placeholder ? null : '::placeholder');
        const ink = faded(colour(style.color), each.value ? 1 : Number(style.opacity));
        hold(each.value || each.placeholder || '', each, ink, [clear]);
    }
    return [...found];
}"""
_NAMED = frozenset({
    "button", "checkbox", "combobox", "image", "listbox", "progressbar", "radio", "spinbutton", "tab", "textbox",
})  # fmt: skip
"""What has to have a name. Handles of sliders cannot have one in ipywidgets; buttons that are named do the same."""


def hard_to_read(widget: Any) -> list[str]:
    """Return the texts of a widget whose contrast is below 4.5, and its shapes below 3; each with its contrast."""
    return list(widget.evaluate(_CONTRAST))


def nameless(widget: Any) -> list[str]:
    """Return the roles of those controls and pictures of a widget that a screen reader has no name for."""
    widget.evaluate("element => { window.looked = element; }")
    session = widget.page.context.new_cdp_session(widget.page)
    root = session.send("Runtime.evaluate", {"expression": "window.looked"})["result"]["objectId"]
    nodes = session.send("Accessibility.queryAXTree", {"objectId": root})["nodes"]
    session.detach()
    shown = [node for node in nodes if not node["ignored"] and node["role"]["value"] in _NAMED]
    return [node["role"]["value"] for node in shown if not node.get("name", {}).get("value", "").strip()]
