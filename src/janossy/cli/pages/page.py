"""Pages from templates: those of a package, on top of the shared ones."""

from collections.abc import Mapping
from typing import Any

import jinja2


def fill(package: str, name: str, context: Mapping[str, Any]) -> bytes:
    """Returns a package's template, filled, in UTF-8. Characters of file names that are not UTF-8 are escaped.

    The template may extend ``page.html.j2`` and import ``parts.html.j2``.
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
