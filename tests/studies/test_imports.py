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


WITHOUT_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "sklearn", "safetensors", "msgspec", "duckdb", "torch_geometric"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import studies.paper.arithmetic.study
import studies.runs.command
print("done")
"""


def test_the_arithmetic_study_needs_no_extra_but_cli():
    """Since ``make reproduce`` installs no other."""
    run = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and run.stdout.endswith("done\n"), run.stderr
