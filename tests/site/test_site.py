"""The site as a whole: search, copying of code, colours, links, and a server that has it below a path."""

import functools
import importlib.util
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.site.conftest import wrongs

LINKS = Path(__file__).parents[2] / "docs" / "site" / "links.py"


def test_search_finds_a_name(page, site):
    page.set_viewport_size({"width": 1280, "height": 900})
    wrongs(page).clear()
    page.goto(f"file://{site / 'index.html'}")
    page.locator(".md-search__input").fill("Sampled")
    page.locator(".md-search-result__link", has_text="Sampled").first.wait_for(timeout=30_000)
    assert any("api/" in link.get_attribute("href") for link in page.locator(".md-search-result__link").all())
    assert wrongs(page) == []


def test_code_can_be_copied(page, site):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"file://{site / 'index.html'}")
    page.locator(".highlight", has_text="janossy fit").first.locator(".md-code__button, .md-clipboard").first.click()
    search = page.locator(".md-search__input")
    search.click()
    page.keyboard.press("Control+V")
    assert search.input_value().startswith("janossy fit hands.parquet --set-id hand")


def test_the_colours_can_be_changed(page, site):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"file://{site / 'index.html'}")
    before = colours(page)
    page.locator("form[data-md-component=palette] label:visible").first.click()
    page.wait_for_function("before => document.body.dataset.mdColorScheme !== before", arg=before[0], timeout=30_000)
    after = colours(page)
    assert {before[0], after[0]} == {"default", "slate"} and before[1] != after[1]
    page.locator("form[data-md-component=palette] label:visible").first.click()


def test_the_site_works_below_a_path(page, site):
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site.parent))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    statuses = []
    listen = lambda response: statuses.append((response.status, response.url))  # noqa: E731 (to be removed by name)
    page.on("response", listen)
    page.goto(f"http://127.0.0.1:{server.server_port}/site/api/orderings.html")
    page.locator(".md-tabs__link").first.click()
    page.wait_for_url("**/site/index.html")
    page.remove_listener("response", listen)
    page.goto("about:blank")
    server.shutdown()
    assert statuses and all(status < 400 for status, _ in statuses), [each for each in statuses if each[0] >= 400]
    assert all(re.match(r"http://127\.0\.0\.1:\d+/site/", url) for _, url in statuses)


def test_every_name_is_in_the_reference(site):
    import janossy  # noqa: PLC0415 (the other tests need no torch)

    text = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    assert all(f'.{name}"' in text for name in janossy.__all__)


def test_a_broken_link_would_be_found(tmp_path):
    spec = importlib.util.spec_from_file_location("links", LINKS)
    links = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(links)
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#there">b</a><a href="#top">top</a><a href="https://example.org/x">x</a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1><a href="a.html#gone">a</a><img src="none.png" alt="none">')
    assert links.check(tmp_path) == (["b.html: a.html#gone", "b.html: none.png"], ["https://example.org/x"])


def colours(page):
    """Returns the name of the scheme, and the background that it gives."""
    scheme = page.locator("body").get_attribute("data-md-color-scheme")
    return scheme, page.evaluate("getComputedStyle(document.body).backgroundColor")
