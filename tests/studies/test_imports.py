"""The modules that the studies' command line loads: help and errors come before torch."""

import subprocess
import sys

PROGRAM = """
import sys

from studies.__main__ import main

for arguments in (
    ["--help"],
    ["no-such-command"],
    ["report", "no/such/directory"],
    ["bench", "sets", "--help"],
    ["bench", "sets", "--only", "none"],
    ["bench", "page", "no/such/directory"],
    ["reproduce", "arithmetic", "--help"],
    ["reproduce", "arithmetic", "--tasks", "none"],
    ["reproduce", "graphs", "--seeds", "0"],
    ["reproduce", "graphs", "--rows", "none"],
):
    sys.argv = ["studies", *arguments]
    try:
        main()
    except SystemExit:
        pass
    heavy = {"torch", "numpy", "scipy", "numba", "matplotlib", "jinja2", "rich", "sklearn", "pyarrow"}
    loaded = heavy & {module.partition(".")[0] for module in sys.modules}
    assert not loaded, (arguments, loaded)
print("done")
"""


def test_nothing_heavy_is_imported_before_it_is_needed():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and run.stdout.endswith("done\n"), run.stderr
