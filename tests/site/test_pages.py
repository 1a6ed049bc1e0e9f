"""Every page of the built site, with its reports: each is loaded once, at two widths, and some in dark colours too."""

from pathlib import Path

import pytest

from tests.site.conftest import wrongs

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
DARK = {
    "index.html",
    "estimators.html",
    "CHANGELOG.html",
    "api/estimators.html",
    "gallery/poker.html",
    "results/index.html",
    *(page for page in PAGES if page.endswith("report.html")),
}
"""Pages that show every kind of element that there is."""

NARROW, WIDE = ({"width": width, "height": 900} for width in (390, 1280))
STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WITHOUT_TEXT = "[...document.images].filter(image => !image.alt.trim()).map(image => image.outerHTML.slice(0, 120))"
RULES = ["heading-order", "image-alt", "page-has-heading-one", "empty-heading", "html-has-lang"]

REMOVED = "selectors => selectors.forEach(each => document.querySelectorAll(each).forEach(element => element.remove()))"
ALIKE = [
    "tbody tr:nth-child(n+6)",
    "li:nth-child(n+12)",
    "code > span:nth-child(n+12)",
    "article > :nth-child(n+60)",
    "article > .doc-object:nth-child(n+8)",
]
"""Elements whose colours are those of others on the page. The contrast of every element would take minutes."""

AROUND = [".md-header", ".md-tabs", ".md-sidebar", ".md-footer"]
"""The parts of a page that all pages of the site share."""


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_and_can_be_read_by_all(page, axe, path):
    check(page, axe, SITE / path, dark=path in DARK)


@pytest.mark.parametrize(("target", "other"), [("total", "large"), ("large", "total")])  # of numbers, of classes
def test_the_report_of_a_fit_is_such_a_page(page, axe, tmp_path, target, other):
    runner = pytest.importorskip("typer.testing", reason="needs the extra cli").CliRunner()
    app = pytest.importorskip("janossy.cli.app", reason="needs the extra cli").app
    lines = ["basket,price,total,large"]
    for basket in range(80):
        prices = [(7 * basket + item) % 11 for item in range(1 + basket % 4)]
        lines += [f"{basket},{price},{sum(prices)},{sum(prices) > 9}" for price in prices]
    (tmp_path / "baskets.csv").write_text("\n".join(lines))
    columns = ["--set-id", "basket", "--target", target, "--drop", other]
    options = ["--strategy", "gru", "--time-budget", "10s", "--out", tmp_path / "model"]
    arguments = ["fit", tmp_path / "baskets.csv", *columns, *options]
    result = runner.invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    check(page, axe, tmp_path / "model" / "report.html", dark=True)


def check(page, axe, path, dark):
    """Loads a page, and asserts all that holds for every page."""
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="light")
    wrongs(page).clear()
    page.goto(f"file://{path}")
    page.add_style_tag(content=STILL)
    assert wrongs(page) == []
    assert page.evaluate(OVERFLOW) <= 0, f"{path} is wider than {NARROW['width']} pixels"
    assert page.locator("h1").count() == 1
    assert page.evaluate(WITHOUT_TEXT) == []
    page.set_viewport_size(WIDE)
    assert page.evaluate(OVERFLOW) <= 0, f"{path} is wider than {WIDE['width']} pixels"
    assert violations(page, axe, RULES) == []
    page.evaluate(REMOVED, ALIKE if dark else ALIKE + AROUND)
    assert violations(page, axe, ["color-contrast"]) == []
    if dark:
        darken(page)
        assert violations(page, axe, ["color-contrast"]) == []


def test_faults_of_a_page_would_be_found(page, axe):
    page.set_viewport_size(NARROW)
    page.goto("about:blank")
    wrongs(page).clear()
    page.set_content(
        "<h2 style='color: #ccc; background: #fff'>pale</h2><img src='data:,'><div style='width: 900px'>wide</div>"
        "<script>console.error('oh'); document.write('<img src=\"http://127.0.0.1:9/x.png\" alt=\"x\">')</script>"
    )
    assert page.evaluate(OVERFLOW) > 0
    assert len(page.evaluate(WITHOUT_TEXT)) == 1
    assert {"color-contrast", "image-alt"} <= {name for name, _ in violations(page, axe, ["color-contrast", *RULES])}
    assert "oh" in wrongs(page) and "http://127.0.0.1:9/x.png" in wrongs(page)


def violations(page, axe, rules):
    """Returns what axe-core finds against these rules: pairs of a rule and the first places."""
    options = {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": rules}}
    found = axe.run(page, options=options).response["violations"]
    return [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]


def darken(page):
    """Shows dark colours: a page of the site as by its button, a report as by the system's setting."""
    page.emulate_media(color_scheme="dark")
    page.evaluate("'mdColorScheme' in document.body.dataset && (document.body.dataset.mdColorScheme = 'slate')")
