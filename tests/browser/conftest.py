"""A real JupyterLab or Notebook, driven by headless Chromium.

    def test_something(lab):
        lab.open("01-linear-regression.ipynb")
        lab.run_all()
        lab.page.get_by_role("button", name="Next").click()
        lab.screenshot("after-next")

`lab` is JupyterLab and `notebook7` is Notebook 7, each on a copy of notebooks/. After the test both
check for errors: a console error, an uncaught exception, or a request to another machine fails it.
Pictures go to build/screenshots.

Nothing is downloaded here: Chromium is the one on the PATH. Without it, playwright or JupyterLab
these tests are skipped, with the reason.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SCREENSHOTS = ROOT / "build" / "screenshots"

CHROMIUM_ARGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
SERVER_START_S = 90
RUN_ALL_S = 300
CALL_S = 60

# What the bare program says on an empty notebook too.
OWN_ERRORS = {
    "lab": [],
    "notebook": ["uncaught: Cannot read properties of undefined (reading 'schema')"],  # 7.6
}


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


# ------------------------------------------------------------------------------------- the server


@dataclass(frozen=True)
class Server:
    app: str  # "lab" or "notebook"
    url: str
    token: str
    root: Path  # the folder it shows, a copy of notebooks/


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310, the server is our own
            return True
    except (urllib.error.URLError, OSError):
        return False


def private_environment(home: Path) -> dict[str, str]:
    """Settings, workspaces and runtime files of this server only; no "Jupyter news?" pop-up."""
    settings = home / "settings"
    notifications = settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    notifications.parent.mkdir(parents=True)
    notifications.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    return os.environ | {
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }


@contextlib.contextmanager
def serving(app: str, folder: Path) -> Iterator[Server]:
    root = folder / "notebooks"
    ignore = shutil.ignore_patterns(".*", "*.html")
    shutil.copytree(ROOT / "notebooks", root, ignore=ignore)

    port, token = free_port(), secrets.token_hex(16)
    app_class = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}[app]
    command = [
        *(sys.executable, "-m", "jupyter", app, "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"),
        f"--IdentityProvider.token={token}",
        f"--{app_class}.expose_app_in_browser=True",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    log = folder / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdout=stream,
            stderr=stream,
            env=private_environment(folder / "home"),
            start_new_session=True,
        )
    server = Server(app, f"http://127.0.0.1:{port}", token, root)
    try:
        deadline = time.monotonic() + SERVER_START_S
        while not answers(f"{server.url}/api?token={token}"):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"jupyter {app} did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """server(app): start an application on first use, one of each for the whole run."""
    running: dict[str, Server] = {}
    with contextlib.ExitStack() as stack:

        def get(app: str) -> Server:
            package = {"lab": "jupyterlab", "notebook": "notebook"}[app]
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed: pip install 'xlanb[browser]'")
            if app not in running:
                folder = tmp_path_factory.mktemp(app)
                running[app] = stack.enter_context(serving(app, folder))
            return running[app]

        yield get


# ------------------------------------------------------------------------------------ the browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium on the PATH: apt-get install chromium")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed: pip install 'xlanb[browser]'")
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has none
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS + sandbox)
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    yield context
    context.close()


# ------------------------------------------------------------------------- a person at the screen

# A promise of the page may never be kept, and playwright would wait for ever.
IN_TIME = """() => Promise.race([
  (SCRIPT)(),
  new Promise((_, reject) => setTimeout(() => reject(new Error("not within LIMIT ms")), LIMIT)),
])"""

# Run All straight after the kernel's first "Idle" is dropped without a word: the session and the
# kernel's own answer have to be there first.
OPENED = """async () => {
  const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
  const until = async (find) => {
    for (;;) {
      const found = find();
      if (found) return found;
      await pause(100);
    }
  };
  const isNotebook = widget => widget && widget.sessionContext && widget.content;
  const panel = await until(() => {
    const shell = window.jupyterapp && window.jupyterapp.shell;
    return shell && [shell.currentWidget, ...shell.widgets("main")].find(isNotebook);
  });
  await panel.context.ready;
  await panel.revealed;
  await panel.sessionContext.ready;
  const kernel = await until(() => panel.sessionContext.session?.kernel);
  await kernel.info;
  await until(() => kernel.status === "idle");
  window.notebookPanel = panel;
}"""
CLEAR = "() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')"
RUN = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
FINISHED = """() => {
  const cells = window.notebookPanel.content.model.toJSON().cells
    .filter(cell => cell.cell_type === "code" && [].concat(cell.source).join("").trim());
  const failed = cells.some(cell => cell.outputs.some(out => out.output_type === "error"));
  const idle = window.notebookPanel.sessionContext.session.kernel.status === "idle";
  return idle && (failed || cells.every(cell => cell.execution_count));
}"""
CELLS = "() => window.notebookPanel.content.model.toJSON().cells"


@dataclass
class Screen:
    """One page on a server, and what went wrong behind it."""

    server: Server
    page: Page
    test: str
    errors: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        self.page.on("console", self._hear)
        self.page.route("**/*", self._route)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self.errors.append(f"console: {message.text} ({where})")

    def _route(self, route: Route) -> None:
        url = route.request.url
        if url.startswith((self.server.url, "data:", "blob:", "about:")):
            route.continue_()
        else:
            self.external.append(url)
            route.abort()

    def call(self, script: str) -> Any:
        """The value of a JavaScript function in the page, which has CALL_S to come to it."""
        in_time = IN_TIME.replace("SCRIPT", script).replace("LIMIT", str(CALL_S * 1000))
        return self.page.evaluate(in_time)

    def write(self, name: str, *sources: str) -> str:
        """Put a notebook of these code cells into the server's folder; its name."""
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        # Without a kernel's name the page would stop and ask for one.
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(notebook, self.server.root / name)
        return name

    def open(self, name: str) -> None:
        """Open a notebook; back when its kernel is ready to run."""
        path = f"lab/tree/{name}?reset&" if self.server.app == "lab" else f"notebooks/{name}?"
        self.page.goto(f"{self.server.url}/{path}token={self.server.token}")
        self.call(OPENED)

    def run_all(self, *, by_menu: bool = False, timeout_s: float = RUN_ALL_S) -> None:
        """Run > Run All Cells, and wait for the last; a cell that raises fails the test."""
        self.start_all(by_menu=by_menu)
        self.finish(timeout_s)

    def start_all(self, *, by_menu: bool = False) -> None:
        """Run > Run All Cells."""
        self.call(CLEAR)
        if by_menu:
            self.page.get_by_role("menuitem", name="Run", exact=True).click()
            self.page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
        else:
            self.call(RUN)

    def finish(self, timeout_s: float = RUN_ALL_S) -> None:
        """Wait for the last cell; a cell that raised fails the test."""
        self.page.wait_for_function(FINISHED, timeout=timeout_s * 1000)
        raised = [out for out in self.outputs() if out["output_type"] == "error"]
        assert not raised, "\n".join(f"{out['ename']}: {out['evalue']}" for out in raised)

    def outputs(self) -> list[dict[str, Any]]:
        """The outputs of all cells, as nbformat has them."""
        return [out for cell in self.call(CELLS) for out in cell.get("outputs", [])]

    def screenshot(self, name: str) -> Path:
        path = SCREENSHOTS / f"{self.test}-{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)
        return path


def look_back(screen: Screen) -> None:
    own = OWN_ERRORS[screen.server.app]
    errors = [error for error in screen.errors if error not in own]
    assert errors == [], "the browser's console is not clean"
    assert screen.external == [], "the page asked another machine"


@pytest.fixture
def lab(server: Callable[[str], Server], context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Screen]:
    """JupyterLab."""
    screen = Screen(server("lab"), context.new_page(), request.node.name)
    yield screen
    look_back(screen)


@pytest.fixture
def notebook7(
    server: Callable[[str], Server], context: BrowserContext, request: pytest.FixtureRequest
) -> Iterator[Screen]:
    """Notebook 7."""
    screen = Screen(server("notebook"), context.new_page(), request.node.name)
    yield screen
    look_back(screen)
