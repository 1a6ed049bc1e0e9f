"""Tables of pages in Markdown."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Iterable[object]], rule: str = "") -> str:
    """Returns a table in Markdown, each cell as ``str`` writes it, with a newline at the end.

    Args:
        header: the names of the columns.
        rows: the cells of each row.
        rule: the line below the header, such as ``|---|---:|``, whose colons align columns. By default no column is
            aligned.
    """
    head, *body = (f"| {' | '.join(map(str, cells))} |" for cells in (header, *rows))
    return "\n".join([head, rule or "|" + "---|" * len(header), *body, ""])
