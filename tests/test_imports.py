"""The modules that `import janossy` and the command line load: nobody waits for a package that is not needed yet."""

import subprocess
import sys
from pathlib import Path

import janossy

PROGRAM = """
import sys

from janossy.cli import main

def loaded(*names):
    return sorted({module.partition(".")[0] for module in sys.modules} & set(names))

for arguments in (
    ["--help"],
    ["--version"],
    ["no-such-command"],
    ["fit", "--help"],
    ["fit", "no/such.csv", "--target", "y", "--out", "no/such/model"],
    ["predict", "no/such/model", "no/such.csv", "--out", "no/such/predictions.csv"],
    ["inspect", "no/such/model"],
):
    sys.argv = ["janossy", *arguments]
    try:
        main()
    except SystemExit:
        pass
    heavy = loaded("torch", "numpy", "scipy", "numba", "matplotlib", "jinja2", "rich", "sklearn", "pyarrow")
    assert not heavy, (arguments, heavy)

sys.argv = ["janossy", "inspect", "tests/saving/v1/estimators/classifier-of-codes.zip"]
try:
    main()
except SystemExit as left:
    assert not left.code
heavy = loaded("torch", "scipy", "sklearn", "skorch", "matplotlib")
assert not heavy, ("inspect", heavy)

import torch

before = set(sys.modules)
import janossy
import janossy.graph

assert len([getattr(janossy, name) for name in janossy.__all__]) > 20
new = set(sys.modules) - before
heavy = [
    "torch._dynamo", "torch._inductor", "torch.distributed", "torch.onnx", "sympy", "scipy.special", "scipy.stats",
    "scipy.sparse", "numba", "onnx", "matplotlib", "jinja2", "rich", "typer", "torch_geometric", "sklearn",
    "pandas", "pyarrow", "safetensors", "triton",
]
assert not new & set(heavy), new & set(heavy)
"""

PREDICT = """
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
(folder / "sets.csv").write_text("id,kind,x,height\\na,0,1.5,2\\na,1,2.5,2\\nb,0,0.5,1\\n")
model = "tests/saving/v1/estimators/classifier-of-codes.zip"
sys.argv = ["janossy", "predict", model, f"{folder}/sets.csv", "--set-id", "id", "--out", f"{folder}/out.csv"]
try:
    main()
except SystemExit as left:
    assert not left.code
assert (folder / "out.csv").read_text().count("\\n") == 3
heavy = {"sklearn", "scipy.stats", "scipy.optimize", "matplotlib", "pyarrow.dataset", "numba", "torch._dynamo"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""

MODELS = """
import pyarrow as pa
from pyarrow import parquet

from janossy.estimators import SetClassifier, load, save
from janossy.saving import load as load_network

folder = Path(tempfile.mkdtemp())
numbers = [[float(i % 7), float(i)] for i in range(40)]
codes = [["a", "b"[: i % 2] or "c"] for i in range(40)]
table = pa.table({"x": numbers, "code": codes, "y": ["odd" if i % 2 else "even" for i in range(40)]})
parquet.write_table(table, folder / "sets.parquet")
model = SetClassifier("k1", max_epochs=1, random_state=0).fit(folder / "sets.parquet", "y")
model.predict(folder / "sets.parquet")
load(save(model, folder / "model")).predict(folder / "sets.parquet")

saved = sorted(Path("tests/saving/v1/networks").glob("*.zip"))
assert len(saved) > 10
for each in saved:
    load_network(each)
heavy = {"torch._dynamo", "torch._inductor", "sympy"} & set(sys.modules)
assert not heavy, heavy
print("done")
"""


def test_nothing_heavy_is_imported_before_it_is_needed():
    """The command line before torch, then ``import janossy``, a prediction, and a fit: each loads more."""
    program = PROGRAM + PREDICT + MODELS
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and run.stdout.endswith("done\n"), run.stderr


def test_the_package_has_the_public_names_and_no_others():
    assert set(janossy.__all__) <= set(dir(janossy)) and not {"Any", "TYPE_CHECKING"} & set(dir(janossy))
    names: dict[str, object] = {}
    exec("from janossy import *", names)
    assert all(names[name] is getattr(janossy, name) for name in janossy.__all__)
    assert janossy.inference.predict is not None  # rooms too, once a name has been asked for
    assert not hasattr(janossy, "Sorted")


def test_the_package_loads_no_module_by_a_name_that_is_not_installed():
    files = list(Path(janossy.__file__).parent.rglob("*.py"))
    assert len(files) > 100
    assert [file for file in files for quote in "\"'" if f"{quote}studies." in file.read_text(encoding="utf-8")] == []
