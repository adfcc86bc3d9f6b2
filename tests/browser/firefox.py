"""Firefox, steered by WebDriver BiDi: playwright steers only a build of its own, which Debian does not have."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

_KEYS: Final = {
    "Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Shift": "\ue008", "Control": "\ue009", "Space": " ",
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
    "Home": "\ue011", "End": "\ue010",
}  # fmt: skip
_UNTIL: Final = """async () => {
    const holds = () => { try { return EXPRESSION; } catch { return false; } };
    while (!holds()) await new Promise(done => setTimeout(done, 50));
    return holds();
}"""

_BOX: Final = "(({x, y, width, height}) => JSON.stringify([x, y, width, height]))((EXPRESSION).getBoundingClientRect())"


class Firefox:
    """A window of Firefox with one page.

    Parameters
    ----------
    address
        Where it listens for commands.
    """

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(f"{address}/session", suppress_origin=True, timeout=120)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded"])
        self._page = self._send("browsingContext.getTree")["contexts"][0]["context"]

    def open(self, url: str, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        self._send("browsingContext.setViewport", context=self._page, viewport=size)
        self._send("browsingContext.navigate", context=self._page, url=url, wait="complete")

    def until(self, expression: str) -> Any:
        """Wait until an expression of JavaScript is true, and return its value."""
        return self._call(_UNTIL.replace("EXPRESSION", expression))

    def click(self, expression: str) -> None:
        """Click the middle of the element that an expression gives."""
        self.until(expression)
        left, top, width, height = json.loads(self.until(_BOX.replace("EXPRESSION", expression)))
        x, y = left + width / 2, top + height / 2
        actions = [
            {"type": "pointerMove", "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": actions})

    def press(self, *keys: str) -> None:
        """Press one key after the other; ``Control+Enter`` is two at once."""
        actions = []
        for key in keys:
            held = [_KEYS.get(name, name) for name in key.split("+")]
            actions += [{"type": "keyDown", "value": name} for name in held]
            actions += [{"type": "keyUp", "value": name} for name in reversed(held)]
        self._act({"type": "key", "id": "keyboard", "actions": actions})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._send("browsingContext.captureScreenshot", context=self._page)["data"]))

    def close(self) -> None:
        self._send("browser.close")
        self._socket.close()

    def _act(self, source: dict[str, Any]) -> None:
        self._send("input.performActions", context=self._page, actions=[source])

    def _call(self, function: str) -> Any:
        target = {"context": self._page}
        found = self._send("script.callFunction", functionDeclaration=function, awaitPromise=True, target=target)
        assert found["type"] == "success", found["exceptionDetails"]["text"]
        return found["result"].get("value")

    def _send(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.errors.append(message["params"]["text"])
            if message.get("id") == number:
                assert message["type"] == "success", f"{method}: {message.get('message')}"
                return message["result"]


def _read_to_the_end(lines: Iterator[str]) -> None:
    with suppress(ValueError):  # the pipe is closed when Firefox is
        deque(lines, maxlen=0)


@contextmanager
def started(profile: Path) -> Iterator[Firefox]:
    """Start Firefox with a new profile; the test is skipped where there is none."""
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    if path is None:
        pytest.skip("Firefox is not installed: put firefox-esr or firefox on PATH")
    (profile / "user.js").write_text('user_pref("browser.shell.checkDefaultBrowser", false);\n')
    command = [path, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(profile), "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            lines = iter(process.stderr or ())
            address = next(found[1] for line in lines if (found := re.search(r"BiDi listening on (ws://\S+)", line)))
            threading.Thread(target=_read_to_the_end, args=[lines], daemon=True).start()  # else a full pipe stops it
            firefox = Firefox(address)
            yield firefox
            firefox.close()
        finally:
            process.kill()
