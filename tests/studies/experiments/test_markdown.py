"""Tables in Markdown have a rule below the header, and end with a newline."""

from studies.experiments.markdown import table


def test_a_table_with_and_without_rows():
    assert table(["name", "n"], [["k1", 3], ("", 0.5)]) == "| name | n |\n|---|---|\n| k1 | 3 |\n|  | 0.5 |\n"
    assert table(["name", "n"], [], "|---|---:|") == "| name | n |\n|---|---:|\n"
