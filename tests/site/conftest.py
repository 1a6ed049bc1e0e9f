"""The built site in a real browser: Debian's Chromium, driven by Playwright."""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build" / "site"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_WRONGS = defaultdict(list)


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra docs")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--allow-file-access-from-files"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page(browser):
    """Gives one page for all tests. ``wrongs`` has its errors, and its requests to other hosts."""
    page = browser.new_page()
    found = _WRONGS[page]
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("requestfailed", lambda request: found.append(f"failed: {request.url}"))
    page.on("request", lambda request: found.append(request.url) if request.url.startswith("http") else None)
    return page


def wrongs(page):
    """Returns the errors of the page and its requests to other hosts since the list was cleared."""
    return _WRONGS[page]


@pytest.fixture(scope="session")
def axe():
    return pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra docs").Axe()


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").exists():
        pytest.skip("needs the site: make docs")
    return SITE
