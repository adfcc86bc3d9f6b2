"""JupyterLab and Chromium: `lab`, `cells` and `in_theme` open a notebook in a real browser, and check it at the end."""

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
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sleeper_nb.clock import Clock
from tests.browser.lab import Lab, Pages, Server
from tests.browser.notebooks import notebook_of

ROOT = Path(__file__).parents[2]
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},  # asks over the page
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight stay in the page
}
_CHROMIUM = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update")

THEMES = ("Light", "Dark")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try every second test in the dark theme and the others in the light one; the rest is `long`.

    Themes differ in colours, and `test_legible` and `Lab.look` check what can be read in each.
    """
    themed = [item for item in items if getattr(item, "callspec", None) and item.callspec.params.get("theme") in THEMES]
    tests = sorted({(item.path, item.originalname) for item in themed})
    for item in themed:
        if item.callspec.params["theme"] != THEMES[tests.index((item.path, item.originalname)) % 2]:
            item.add_marker(pytest.mark.long)


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


@pytest.fixture(scope="module")  # a page that served all files crashed now and then
def pages(server: Server, chromium: Any) -> Iterator[Pages]:
    made = Pages(server, chromium)
    yield made
    made.discard()


@pytest.fixture
def new_page(pages: Pages) -> None:
    """Have JupyterLab loaded again, as who opens it at the notebook has it."""
    pages.discard()


@pytest.fixture
def lab(pages: Pages, request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Lab]]:
    """Open a notebook; at the end of the test, what must hold of every notebook is checked.

    JupyterLab is loaded once for the tests of a file that pass: to load it costs as much as most of them.
    """
    page, hosts, failed = pages.ready(), set[str](), request.session.testsfailed

    def asked(request: Any) -> None:
        # a widget's module is read from the memory of the page, as blob:http://…
        hosts.add(urlsplit(request.url.removeprefix("blob:")).hostname or "")

    page.on("request", asked)
    labs: list[Lab] = []

    def open_notebook(notebook: Path) -> Lab:
        folder = request.node.name.replace("[", "-").replace("]", "")  # each has its own, where its kernel works
        (pages.server.folder / folder).mkdir()
        shutil.copy(notebook, pages.server.folder / folder)
        labs.append(Lab(page, pages.server, f"{folder}/{notebook.name}", hosts=hosts))
        labs[-1].open()
        return labs[-1]

    yield open_notebook
    try:
        for opened in labs:
            opened.check()
            opened.stop_kernel()
            opened.close()
    except BaseException:
        pages.discard()
        raise
    page.remove_listener("request", asked)
    if request.session.testsfailed > failed:
        pages.discard()


@pytest.fixture
def cells(lab: Callable[[Path], Lab], tmp_path: Path) -> Callable[..., Lab]:
    """Open a notebook of some cells and run them all, in the light theme or the one that is named, in a wide window."""

    def run(*sources: str, theme: str = "Light", width: int = 1280) -> Lab:
        opened = lab(notebook_of(tmp_path / "cells.ipynb", *sources))
        opened.page.set_viewport_size({"width": width, "height": 1000})
        opened.set_theme(theme)
        opened.run_all()
        return opened

    return run


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def in_theme(cells: Callable[..., Lab], theme: str) -> Callable[..., Lab]:
    """Do as `cells` in each of the two themes."""
    return partial(cells, theme=theme)
