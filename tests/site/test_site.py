"""Every page of the built site, and every report, opened from its file: no error, no request, nothing too wide."""

import functools
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = (ROOT / "build" / "site").rglob("*.html")
PAGES = sorted(str(path.relative_to(ROOT)) for path in BUILT if path.name != "404.html")  # which a server alone shows
REPORTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "results").rglob("report.html"))
WIDTHS = (390, 1280)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
RULES = ["color-contrast", "heading-order", "image-alt", "page-has-heading-one", "empty-heading", "html-has-lang"]


@pytest.fixture(scope="module")
def open_page(browser):
    """Opens a page from its file, and fails if anything is asked from another place or goes wrong."""
    contexts = {width: browser.new_context(viewport={"width": width, "height": 900}) for width in WIDTHS}
    pages = {width: context.new_page() for width, context in contexts.items()}
    wrong = []
    for page in pages.values():
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
        page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)

    def opened(address, width=1280):
        wrong.clear()
        pages[width].goto(address)
        assert not wrong, f"{address}: {wrong}"
        return pages[width]

    yield opened
    for context in contexts.values():
        context.close()


@pytest.mark.parametrize("path", PAGES + REPORTS)
def test_a_page_opens_and_fits(open_page, site, path):
    for width in WIDTHS:
        page = open_page(f"file://{ROOT / path}", width)
        assert page.evaluate(OVERFLOW) <= 0, f"{path} is wider than {width} pixels"
        assert page.locator("h1").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES + REPORTS)
def test_a_page_can_be_read_by_all(browser, site, path, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra docs").Axe()
    page = browser.new_page(color_scheme=scheme)
    page.goto(f"file://{ROOT / path}")
    found = axe.run(page, options={"runOnly": {"type": "rule", "values": RULES}}).response["violations"]
    page.close()
    assert not found, [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]


def test_an_overflow_would_be_found(browser):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content("<h1>x</h1><div style='width: 900px'>wide</div>")
    assert page.evaluate(OVERFLOW) > 0
    page.close()


def test_search_finds_a_name(open_page, site):
    page = open_page(f"file://{site / 'index.html'}")
    page.locator(".md-search__input").fill("Sampled")
    hit = page.locator(".md-search-result__link", has_text="Sampled").first
    hit.wait_for(timeout=15_000)
    assert any("api/" in link.get_attribute("href") for link in page.locator(".md-search-result__link").all())


def test_code_can_be_copied(browser, site):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"file://{site / 'index.html'}")
    page.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    block = page.locator(".highlight", has_text="janossy fit").first
    block.locator("[data-md-type=copy], .md-clipboard, .md-code__button").first.click()
    page.wait_for_function("window.copied !== undefined", timeout=5_000)
    assert "janossy fit" in page.evaluate("window.copied")
    context.close()


def test_the_scheme_can_be_changed(open_page, site):
    page = open_page(f"file://{site / 'index.html'}")
    before = page.locator("body").get_attribute("data-md-color-scheme")
    page.locator("form[data-md-component=palette] label:visible").first.click()
    assert page.locator("body").get_attribute("data-md-color-scheme") != before


def test_the_site_works_below_a_path(browser, site):
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site.parent))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    statuses = []
    page.on("response", lambda response: statuses.append((response.status, response.url)))
    page.goto(f"http://127.0.0.1:{server.server_port}/site/api/orderings.html")
    assert all(status < 400 for status, _ in statuses), [each for each in statuses if each[0] >= 400]
    assert all(re.match(r"http://127\.0\.0\.1:\d+/site/", url) for _, url in statuses)
    page.close()
    server.shutdown()


def test_every_name_is_in_the_reference(site):
    import janossy  # noqa: PLC0415 (the other tests need no torch)

    text = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    assert all(f'.{name}"' in text for name in janossy.__all__)
