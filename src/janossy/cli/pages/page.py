"""Pages from templates: a package's own, on top of those that all pages share."""

from collections.abc import Mapping
from typing import Any

import jinja2


def fill(package: str, name: str, context: Mapping[str, Any]) -> bytes:
    """Returns a package's template, filled, in UTF-8. What has no place there, of a name that is not UTF-8, is escaped.

    It may extend ``page.html.j2`` and import ``parts.html.j2``.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each, ".") for each in (package, __package__)]),
        autoescape=name.endswith(".html.j2"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(name).render(context).encode(errors="backslashreplace")
