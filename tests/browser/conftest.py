"""JupyterLab and Chromium: `lab(notebook)` opens a notebook in a real browser, ready to run."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
import pytest

from sleeper_nb.clock import Clock

ROOT = Path(__file__).parents[2]
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},  # asks over the page
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight stay in the page
}
_CHROMIUM = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update")
_OPEN = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
# Neither command is awaited inside the page: waiting for them has no time limit there.
_RUN = """() => {
    window.ran = false;
    void window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => { window.ran = true; });
}"""
_SAVE = """() => {
    window.saved = false;
    void window.jupyterapp.shell.currentWidget.context.save().then(() => { window.saved = true; });
}"""

_STOP = """() => {
    window.down = false;
    void window.jupyterapp.shell.currentWidget.sessionContext.shutdown().then(() => { window.down = true; });
}"""


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: its address, its token and the folder that it shows."""

    url: str
    token: str
    folder: Path


@dataclass
class Lab:
    """A notebook open in a page."""

    page: Any
    server: Server
    name: str
    hosts: set[str] = field(default_factory=set)

    def open(self) -> None:
        self.page.goto(f"{self.server.url}/doc/tree/{self.name}?reset&token={self.server.token}")
        self.page.wait_for_function(_OPEN)

    def run_all(self, *, seconds: float) -> None:
        self.page.evaluate(_RUN)
        self.page.wait_for_function("window.ran", timeout=seconds * 1000)

    def theme(self, name: str) -> None:
        self.page.evaluate(
            "name => { void window.jupyterapp.commands.execute('apputils:change-theme', {theme: name}); }", name
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)

    def unexpected(self) -> list[dict[str, Any]]:
        """Return the errors in the page, but for those of cells that are there to show one, and what is on stderr."""
        text = self.page.evaluate("() => JSON.stringify(window.jupyterapp.shell.currentWidget.content.model.toJSON())")
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return [
            output
            for cell in cells
            if "raises-exception" not in cell["metadata"].get("tags", ())
            for output in cell["outputs"]
            if output["output_type"] == "error" or output.get("name") == "stderr"
        ]

    def saved(self) -> list[dict[str, Any]]:
        """Save the notebook and return the outputs in the file."""
        self.page.evaluate(_SAVE)
        self.page.wait_for_function("window.saved")
        cells = nbformat.read(self.server.folder / self.name, as_version=4)["cells"]  # joins what the file has in lines
        return [output for cell in cells for output in cell.get("outputs", ())]

    def stop_kernel(self) -> None:
        self.page.evaluate(_STOP)
        self.page.wait_for_function("window.down")

    def shot(self, name: str, place: str = ".sleeper-live, .sleeper-static") -> None:
        """Keep a picture of the page, scrolled to the widget, when ``SLEEPER_SHOTS`` names a folder."""
        if folder := os.environ.get("SLEEPER_SHOTS"):
            self.page.locator(place).last.evaluate("e => e.scrollIntoView()")
            self.page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")
    for name, body in _SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body))
    places = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
    }  # fmt: skip
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {name: str(home / place) for name, place in places.items()} | {"PYTHONPATH": path}
    token = secrets.token_hex(16)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
        f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly", "--LabApp.news_url=None",
    ]  # fmt: skip
    with (home / "lab.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        yield Server(_address(process, home, token), token, folder)
    finally:
        process.send_signal(signal.SIGTERM)  # it shuts its kernels down itself
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _address(process: subprocess.Popen[bytes], home: Path, token: str) -> str:
    """Return where the server listens, once it answers: it chose its port and wrote it into its runtime folder."""
    for _ in range(600):
        for path in (home / "runtime").glob("jpserver-*.json"):
            try:
                url = f"http://127.0.0.1:{json.loads(path.read_text())['port']}"
                with urllib.request.urlopen(f"{url}/api/status?token={token}", timeout=5):  # noqa: S310 - it is http
                    return url
            except (OSError, ValueError):
                continue
        assert process.poll() is None, (home / "lab.log").read_text()[-3000:]
        Clock().sleep(0.1)
    raise AssertionError((home / "lab.log").read_text()[-3000:])


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed: put it on PATH, or name it in CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_CHROMIUM))
        yield browser
        browser.close()


@pytest.fixture
def lab(server: Server, chromium: Any, request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Lab]]:
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(60_000)
    hosts: set[str] = set()
    page.on("request", lambda asked: hosts.add(urlsplit(asked.url).hostname or ""))

    def open_notebook(notebook: Path) -> Lab:
        name = f"{request.node.name.replace('[', '-').replace(']', '')}.ipynb"
        shutil.copy(notebook, server.folder / name)
        opened = Lab(page, server, name, hosts)
        opened.open()
        return opened

    yield open_notebook
    page.close()
