"""Errors and warnings of the library in terms of the command line: options instead of arguments."""

import re

OPTIONS = {
    "set_id": "--set-id",
    "set_columns": "--set-columns",
    "numeric": "--numeric",
    "categorical": "--categorical",
    "drop": "--drop",
    "sample_weight": "--weight",
    "groups": "--groups",
    "loss": "--loss",
    "quantiles": "--quantiles",
    "strategy": "--strategy",
    "time_budget": "--time-budget",
    "max_epochs": "--max-epochs",
    "validation": "--validation",
    "num_permutations": "--num-permutations",
    "num_threads": "--threads",
    "checkpoint": "--checkpoint",
    "random_state": "--seed",
    "device": "--device",
    "keep": "--set-id",
    "y": "--target",
}
"""The option of each argument."""

WHOLE = {
    r"ordinal=True": "--ordinal",
    r"class_weight='balanced'": "--balanced",
    r"Lower learning_rate, or look": "Look",
    r": Found array with \d+ sample\(s\)": "",
    r"(\d+) (sample|feature)\(s\)": r"\1",
    r"(SetClassifier|SetRegressor|SetStream|SetPredictor|SetEstimator|as_sets|TableEncoder) expects": "expected",
    r"SetRegressor takes": "--task regression takes",
    r" Encoded\.unseen counts them\.": "",
    r"\bset_columns and y\b": "--set-columns and --target",
}
"""Regular expressions of phrases, with the phrases of the commands."""

UNDERSCORED = "|".join(name for name in OPTIONS if "_" in name)
"""The argument names that are not English words."""

SETTING = re.compile(rf"(?<![\w.'-])({'|'.join(OPTIONS)})=('[^']*'|[^\s,;:)]*[^\s,;:).])?")
NAME = re.compile(
    rf"(?<![\w./-])({UNDERSCORED})(?![\w/-]|\.\w)"
    rf"|(?<![\w./-])({'|'.join(OPTIONS)})(?= expects\b)"
    r"|(?<=\bin |\bof )(y|strategy)(?![\w-])"
    r"|(?<=\bLeave )(groups)(?= out\b)"
)


def in_options(message: object) -> str:
    """Returns an error or a warning of the library with options instead of arguments.

    Quoted text, and the columns listed after "it has", are the user's own words and stay.
    """
    text, has, listed = (*re.split(r"(\b(?:[Ii]t|X) has )", str(message), maxsplit=1), "", "")[:3]
    for phrase, words in WHOLE.items():
        text = re.sub(phrase, words, text)
    text = SETTING.sub(lambda found: f"{OPTIONS[found[1]]} {(found[2] or '').strip(chr(39))}".rstrip(), text)
    parts = re.split(r"('[^']*')", text)
    own = [NAME.sub(lambda found: OPTIONS[found[0]], part) if i % 2 == 0 else part for i, part in enumerate(parts)]
    return "".join(own) + has.replace("X has", "The table has") + listed
