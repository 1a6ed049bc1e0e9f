"""Spellings of numbers, lists and dates that only an option reads, and words that stand for a missing value."""

CURRENCIES = (
    "USD|EUR|GBP|JPY|CNY|INR|CHF|CAD|AUD|NZD|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|RUB|UAH|TRY|ILS|SAR|AED|EGP|NGN|KES|ZAR"
    "|BRL|MXN|ARS|CLP|COP|PEN|KRW|HKD|TWD|SGD|MYR|THB|IDR|PHP|VND|PKR|BDT"
)
"""Codes of currencies. Other capital letters beside numbers may be codes of courses or number plates."""

MONTH = (
    "(?i:jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?"
    "|dec(ember)?)"
)

CLOCK = r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?"
YEAR_LAST = rf"^\d{{1,2}}[/.-]\d{{1,2}}[/.-]\d{{4}}{CLOCK}$"

SPACES = " \u00a0\u2009\u202f"

ALIKE = {" ": SPACES, "'": "'’"}
"""Marks that are written for a mark of thousands."""

UNKNOWN = (
    r"^(?i:n\.?/?a\.?|n\.?d\.?|none|null|nan|nil|unk(nown)?|missing|not (available|known|applicable|reported|recorded)"
    r"|unavailable|blank|tb[ad])$|^[^\pL\d\s]+$"
)
"""Words, and marks such as ``**``, that beside numbers probably stand for a missing value."""

OTHER_NUMBERS = {
    "separators of thousands": (r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$", "--thousands , (or --decimal , for decimals)"),
    "decimal commas": (r"^[+-]?\d*,\d+$", "--decimal ,"),
    "separators of thousands and decimal commas": (
        r"^[+-]?(\d{1,3}((\.\d{3})+,\d+|(\.\d{3}){2,})|\d*,\d+)$",
        "--thousands . --decimal ,",
    ),
    "apostrophes between thousands": (r"^[+-]?\d{1,3}(['’]\d{3})+(\.\d+)?$", '--thousands "\'"'),
    "spaces between thousands": (rf"^[+-]?\d{{1,3}}([{SPACES}]\d{{3}})+(\.\d+)?$", "--thousands ' '"),
    "spaces between thousands and decimal commas": (
        rf"^[+-]?(\d{{1,3}}([{SPACES}]\d{{3}})+(,\d+)?|\d*,\d+)$",
        "--thousands ' ' --decimal ,",
    ),
    "per cent or currencies": (
        rf"^[+-]?([A-Z]{{0,3}}[$€£¥₹]|{CURRENCIES})\s?[+-]?[\d.,]+$|^[+-]?[\d.,]+\s?([%$€£¥₹]|{CURRENCIES})$",
        "numbers without them",
    ),
    "lists": (
        r"^[^;|\s]+([;|][^;|\s]+)+$|^[+-]?[\d.]+([, ]\s*[+-]?[\d.]+)+$|^[^,\s]+(,[^,\s]+)+$",
        "--list-separator",
    ),
    "numbers with signs or units beside them": (
        r"^[(<>≤≥~±−–]\s?\d[\d.,]*\)?$|^-?PT?\d[\dTYMWDHS.]*[YMWDHS]$|^-?\d+ days?,? [+-]?[\d:.]+$"
        r"|^\d+ ?h(ours?)?,? ?\d+ ?m(in|inutes?)?( ?\d+ ?s)?$|^-?\d{1,4}:\d{2}(:\d{2}(\.\d+)?)?$|^\d[\d.,]*-$"
        r"|^[+-]?\d[\d.,]*(\s[a-zA-Zµ°/²³]{1,6}|[µ°]|[kKM]|bn|[munµk]?[gms]|[cd]m|min|h|[kM]?W|[kMGT]B)$"
        r"|^[+-]?\d[\d.,]*\s?([*†‡§^]+|\[\w{1,3}\]|st|nd|rd|th)$|^=?[\"'‘“][+-]?\d[\d.,]*[\"'’”]$|^\d+' ?(\d+\")?$",
        "numbers without them",
    ),
    "dates in words, without days, or with years of two digits": (
        r"^(\d{1,2}:\d{2}(:\d{2})?,?\s+)?(\pL{3,9}\.?,? )?\d{1,2}[ ./-]\pL{3,9}\.?,?[ ./-]\d{2,4}\b"
        r"|^[A-Z][a-z]{2,8}\.? \d{1,2},? \d{4}\b"
        r"|^(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?,?[ -]\d{4}$"
        r"|^(19|20)\d{2}([-/](0[1-9]|1[0-2])|[ -]?Q[1-4]|-?W\d{2})$|^(0?[1-9]|1[0-2])/(19|20)\d{2}$"
        r"|^\d{1,2}[/.-]\d{1,2}[/.-]\d{2}$|\d{1,2}:\d{2}(:\d{2})? ?[AaPp]\.?[Mm]\.?$"
        rf"|^{MONTH}\.?[ -]\d{{1,2}}$|^\d{{1,2}}\.?[ -]{MONTH}\.?$"
        rf"|^[A-Z][a-z]{{2}} {MONTH} \d{{1,2}} \d{{2}}:\d{{2}}:\d{{2}} .*\d{{4}}$"
        r"|^Q[1-4][ /-]?(19|20)\d{2}$|^\d{4}年\d{1,2}月|^\d{4}-\d{2}-\d{2}[ T]\d{1,2}$",
        "dates as 2024-01-31",
    ),
    "dates whose day and month cannot be told apart": (YEAR_LAST, "dates as 2024-01-31"),
}
"""Spellings of numbers, lists and dates that only an option reads, with the option or another remedy."""
