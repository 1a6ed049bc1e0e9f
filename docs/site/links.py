"""Links of the built site: internal ones lead to a file and a place in it, external ones are listed."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINK = re.compile(r'\s(?:href|src)="([^"]*)"')
PLACE = re.compile(r'\s(?:id|name)="([^"]*)"')
COMPILED = re.compile(r"<script.*?</script>|<style.*?</style>", re.DOTALL)


def check(site: Path) -> tuple[list[str], list[str]]:
    """Returns the internal links of a folder of pages that lead nowhere, and the addresses of all external links."""
    texts = {page: COMPILED.sub("", page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    places = {page: {html.unescape(place) for place in PLACE.findall(text)} for page, text in texts.items()}
    broken, external = [], set()
    for page, text in texts.items():
        for link in links(text):
            address = urlsplit(link)
            if address.scheme or address.netloc:
                external.add(link)
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            anchor = unquote(address.fragment)
            if not target.exists() or (anchor and target in places and anchor not in places[target]):
                broken.append(f"{page.relative_to(site)}: {link}")
    return sorted(broken), sorted(external)


def links(text: str) -> Iterator[str]:
    """Yields the links and sources of a page, without those that hold data."""
    for link in LINK.findall(text):
        if not link.startswith(("data:", "mailto:", "javascript:")):
            yield html.unescape(link)
