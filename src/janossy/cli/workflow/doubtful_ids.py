"""Ids of tables that may not be meant so: rows of totals, footnotes, rounded numbers, and ids in two spellings."""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from janossy.cli.workflow.text_types import Spelling
from janossy.tables.arrow import is_text
from janossy.tables.columns import FLOAT_WHOLE

LAST_ROWS = {
    "a row of totals": r"(?i)((grand|sub)?[ -]?total|sum|summe|gesamt|average|mean)s?:?",
    "a footnote": r"(?i)(sources?|notes?|footnotes?|quellen?|anmerkung(en)?)(:.*)?|[*†‡].*",
}
"""Words for a last row that is not of a set."""


def doubtful(ids: pa.Array | pa.ChunkedArray, name: str) -> str:
    """Returns a note on ids that are floats beyond the whole numbers of floats, or do not end with a set, or ""."""
    if is_text(ids.type) and len(ids):
        last = (ids[-1].as_py() or "").strip()
        for what, pattern in LAST_ROWS.items():
            if re.fullmatch(pattern, last):
                return f"--set-id {name} ends with {last!r:.60}, which may be {what}: delete it."
    if not pa.types.is_floating(ids.type):
        return ""
    largest = pc.max(pc.abs(ids.cast(pa.float64()))).as_py()
    if largest is None or largest <= FLOAT_WHOLE:
        return ""
    return (
        f"--set-id {name} has floats such as {largest:.0f}, each of which may stand for several ids: write ids as text."
    )


def have_twins(texts: Sequence[pa.Array], spelling: Spelling) -> bool:
    """Returns True if two ids differ by zeros in front."""
    ids = pa.chunked_array([spelling.trimmed(text) for text in texts]).unique()
    return len(pc.utf8_ltrim(ids, "0").unique()) < len(ids)
