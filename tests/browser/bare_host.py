"""A page with one widget and no notebook: nothing but anywidget's contract, as the renderer of VS Code or Colab has it.

The widget lives in this process. Its comm is carried by HTTP: what the page sends is posted, what the widget sends
comes as server-sent events. The page's policy lets nothing be evaluated and nobody else be asked.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

POLICY: Final = (
    "default-src 'none'; script-src 'self' blob:; style-src 'self' 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; connect-src 'self' blob:"
)
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A widget</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="theme.css">
<style>
body { margin: 0; padding: 16px; background: var(--jp-layout-color0, Canvas);
       color: var(--jp-content-font-color1, CanvasText);
       font: var(--jp-content-font-size1, 14px) var(--jp-content-font-family, sans-serif) }
</style></head>
<body data-jp-theme-light="LIGHT" data-jp-theme-name="NAME"><main id="host"></main>
<script type="module" src="host.js"></script></body></html>"""
# A module is read into a blob and imported, as anywidget does. `asked` has what was sent, for tests to count.
_HOST: Final = """
const handlers = new Map(), traits = await (await fetch("state")).json(), changed = new Set();
const post = data => fetch("message", {method: "POST", body: JSON.stringify(data)});
const call = (event, ...given) => [...(handlers.get(event) ?? [])].forEach(each => each(...given));
const asked = window.asked = [];
let last = Promise.resolve();
const model = {
    get: name => structuredClone(traits[name]),
    set: (name, value) => { traits[name] = value; changed.add(name); call(`change:${name}`, undefined, value); },
    save_changes: () => {
        const state = Object.fromEntries([...changed].map(name => [name, traits[name]]));
        changed.clear();
        last = last.then(() => post({method: "update", state, buffer_paths: []}));
    },
    on: (event, handler) => { handlers.set(event, (handlers.get(event) ?? new Set()).add(handler)); },
    off: (event, handler) => { handlers.get(event)?.delete(handler); },
    send: content => { asked.push(content); last = last.then(() => post({method: "custom", content})); },
};
new EventSource("events").onmessage = ({data}) => {
    const message = JSON.parse(data);
    if (message.method === "custom") call("msg:custom", message.content, []);
    if (message.method === "update") for (const [name, value] of Object.entries(message.state)) {
        traits[name] = value;
        call(`change:${name}`, undefined, value);
    }
};
const source = await (await fetch("widget.js")).blob();
const module = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
const clear = await module.default.render({model, el: document.getElementById("host")});
window.unmount = () => clear?.();
"""


@dataclass(frozen=True)
class Dress:
    """What a host sets on its page: a sheet, JupyterLab's or none, and what JupyterLab says about its theme."""

    sheet: str = ""
    name: str = ""
    is_light: bool = True

    @classmethod
    def of(cls, theme: str) -> Dress:
        """Return that of a theme of JupyterLab; skip the test where JupyterLab is not installed."""
        folder = f"theme-{theme.removeprefix('JupyterLab ').lower().replace(' ', '-')}-extension"
        path = Path(sys.prefix) / "share" / "jupyter" / "lab" / "themes" / "@jupyterlab" / folder / "index.css"
        if not path.exists():
            pytest.skip("JupyterLab is not installed")
        return cls(path.read_text(), theme, is_light="Light" in theme)


@dataclass
class BareHost:
    """Serves a widget until it is closed.

    Parameters
    ----------
    widget
        One that anywidget made.
    dress
        What the page looks like before anything is drawn.
    """

    widget: Any
    dress: Dress = field(default_factory=Dress)
    port: int = 0

    def __post_init__(self) -> None:
        self._readers: list[queue.Queue[str | None]] = []
        self.sent: list[dict[str, Any]] = []  # what the widget sent to the page
        self.widget.comm.send = self._send
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def close(self) -> None:
        for reader in self._readers:
            reader.put(None)
        self._server.shutdown()
        self._server.server_close()

    def take(self, data: dict[str, Any]) -> None:
        """Hand the widget what its page sent."""
        self.widget.comm.handle_msg({"content": {"data": data}, "buffers": []})

    def page(self) -> str:
        return _PAGE.replace("LIGHT", str(self.dress.is_light).lower()).replace("NAME", self.dress.name)

    def state(self) -> dict[str, Any]:
        return {name: value for name, value in self.widget.get_state().items() if not name.startswith("_")}

    def read_events(self, write: Callable[[bytes], object]) -> None:
        reader: queue.Queue[str | None] = queue.Queue()
        self._readers.append(reader)
        write(b": hello\n\n")
        while (text := reader.get()) is not None:
            write(f"data: {text}\n\n".encode())

    def _send(self, data: dict[str, Any], *_: Any, **__: Any) -> None:
        if data.get("method") not in {"custom", "update"}:
            return
        self.sent.append(data)
        for reader in self._readers:
            reader.put(json.dumps(data))


def _handler_of(host: BareHost) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/":
                    self._answer("text/html", host.page())
                case "/host.js":
                    self._answer("text/javascript", _HOST)
                case "/theme.css":
                    self._answer("text/css", host.dress.sheet)
                case "/widget.js":
                    self._answer("text/javascript", host.widget._esm)
                case "/state":
                    self._answer("application/json", json.dumps(host.state(), default=str))
                case "/events":
                    self._head("text/event-stream")
                    with suppress(OSError):  # the page was closed
                        host.read_events(self._write)
                case _:
                    self.send_error(404)

        def do_POST(self) -> None:
            host.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer("application/json", "{}")

        def log_message(self, *_: object) -> None:
            pass

        def _head(self, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()

        def _answer(self, kind: str, text: str) -> None:
            self._head(kind)
            self._write(text.encode())

        def _write(self, data: bytes) -> None:
            self.wfile.write(data)
            self.wfile.flush()

    return Handler
