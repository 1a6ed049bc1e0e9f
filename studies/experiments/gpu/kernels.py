"""Compiles every kernel for GPUs, without a GPU, and reads the result: ``python -m studies.experiments.gpu.kernels``.

Writes docs/results/gpu-kernels.json, one cell for each kernel, case and compute capability, and the page
docs/gpu-kernels-table.md. Cells of unchanged kernels are kept, unless --again is given.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from types import ModuleType

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from janossy.kernels.cuda import tuple_sums
from studies.experiments import markdown
from studies.experiments.gpu.cases import DTYPES, cases

DOCS = Path(__file__).parents[3] / "docs"
RESULTS, PAGE = DOCS / "results" / "gpu-kernels.json", DOCS / "gpu-kernels-table.md"
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

MAX_REGISTERS, MAX_SHARED = 128, 48 * 1024
CAPABILITIES = (80, 90)

GPUS = {
    "A100": {"capability": 80, "processors": 108, "ghz": 1.41, "special": 16, "float32": 64, "issued": 128},
    "H100": {"capability": 90, "processors": 132, "ghz": 1.98, "special": 16, "float32": 128, "issued": 128},
}
"""Streaming multiprocessors, boost clock, and results per clock of each.

The sources are NVIDIA's white papers (19.5 and 66.9 TFLOPS of float32), and the table of arithmetic throughput in the
CUDA C++ Programming Guide."""

NUMBERS = {"offsets": "*i64", "harmonics": "*i32", "wanted": "*i8"}
IN_FLOAT32 = set(
    "sums high low parts centres periods linear values means weights prefixes suffixes kept".split()  # noqa: SIM905
)
OF_DTYPE = {"p", "z", "out", "slopes"}
FLOATS = {"kappa", "delta", "cut", "fewest", "max_enumerated", "alpha", "beta", "gamma"}


def type_of(argument, case):
    """Returns Triton's name of an argument's type."""
    if argument in case.constants:
        return "constexpr"
    if argument in OF_DTYPE or (argument == "means" and "products" in case.name):
        return f"*{DTYPES[case.dtype]}"
    if argument in IN_FLOAT32:
        return "*fp32"
    return NUMBERS.get(argument) or ("fp32" if argument in FLOATS else "i32")


def name(case, capability):
    return f"{case.name} sm_{capability}"


def signature(case):
    return {argument: type_of(argument, case) for argument in case.function.arg_names}


def source(case):
    """Returns a digest of everything that a case is compiled from: texts, types and constants."""
    of = texts(case.function), signature(case), case.constants, tuple_sums.OPTIONS, triton.__version__
    return hashlib.sha256(repr(of).encode()).hexdigest()[:12]


def texts(kernel):
    """Returns the text of a kernel, and of our functions and constants that it uses.

    Its ``cache_key`` would depend on earlier compilations.
    """
    found, left = {}, [kernel]
    while left:
        each = left.pop()
        module = each.fn.__module__
        found[f"{module}.{each.fn.__name__}"] = each.src
        for name in each.fn.__code__.co_names:
            value = each.fn.__globals__.get(name)
            if hasattr(value, "src"):
                if f"{value.fn.__module__}.{name}" not in found:
                    left.append(value)
            elif value is not None and not isinstance(value, ModuleType):
                found[f"{module}.{name}"] = repr(value)
    return sorted(found.items())


def compile_case(case, capability):
    """Returns the compiled kernel of a case."""
    of = ASTSource(case.function, signature(case), case.constants)
    return triton.compile(of, target=GPUTarget("cuda", capability, 32), options=tuple_sums.OPTIONS)


def read(compiled, case):
    """Returns the resources of a compiled kernel, and the instructions per step of one unit in its innermost loop."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        used = tool("cuobjdump", "--dump-resource-usage", file.name)
        code = tool("nvdisasm", "-c", file.name)
    numbers = {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", used)}
    cell = {
        "registers": numbers["REG"],
        "spilled": numbers["STACK"] + numbers["LOCAL"],
        "shared": compiled.metadata.shared,
    }
    return cell | ({"instructions": innermost(code, case)} if case.loads else {})


def tool(program, *arguments):
    return subprocess.run([TOOLS / program, *arguments], capture_output=True, text=True, check=True).stdout


def innermost(code, case):
    """Returns the instructions per step, by kind, of the most deeply nested loop (the longest of several)."""
    labels, instructions = {}, []
    for line in code.splitlines():
        if label := re.match(r"^(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?\s*([A-Z][A-Z0-9_.]*)(.*)", line):
            instructions.append((found[1], found[2]))
    loops = []
    for i, (operation, rest) in enumerate(instructions):
        target = re.search(r"\.L_x_\d+", rest)
        if operation.startswith("BRA") and target and labels.get(target[0], i + 1) <= i:
            loops.append((labels[target[0]], i))
    depths = {(a, b): (sum(c <= a and b <= d for c, d in loops), b - a) for a, b in loops}
    begin, end = max(depths, key=depths.get)
    body = Counter(kind(operation) for operation, _ in instructions[begin : end + 1])
    steps = case.num * body["load"] / case.loads
    return {what: round(num / steps, 2) for what, num in sorted(body.items())}


def kind(operation):
    base = operation.split(".")[0]
    if base == "MUFU":
        return "special"
    if base in ("FADD", "FMUL", "FFMA", "FSEL", "FSETP", "FMNMX", "FRND"):
        return "float32"
    return "load" if base == "LDG" else "other"


def bound(instructions, gpu):
    """Returns the most tuples of a hidden unit per second, in 10⁹, and the limiting resource."""
    clocks = {
        "special functions": instructions.get("special", 0) / gpu["special"],
        "float32": instructions.get("float32", 0) / gpu["float32"],
        "instructions": sum(instructions.values()) / gpu["issued"],
    }
    slowest = max(clocks, key=clocks.get)
    return gpu["processors"] * gpu["ghz"] / clocks[slowest], slowest


def page(cells):
    """Returns the page from these cells."""
    registers, shared = (max(cell[what] for cell in cells.values()) for what in ("registers", "shared"))
    spilled = sum(cell["spilled"] for cell in cells.values())
    triton_of = next(iter(cells.values()))["triton"]
    lines = [
        "# What the kernels for a GPU compile to",
        "",
        f"Written by `python -m studies.experiments.gpu.kernels`: {len(cells) // 2} kernels, each compiled for compute",
        f"capability 8.0 and 9.0 by Triton {triton_of}. Asked of each: nothing spilled, at most",
        f"{MAX_REGISTERS} registers a thread and 48 KiB of shared memory.",
        f"They take {registers} registers at most, {shared} bytes of shared memory at most, and spill {spilled} bytes.",
        "",
        "Where a column has two numbers, they are of sm_80 and sm_90. Instructions are those for one step of one",
        "hidden unit in the innermost loop, from the machine code: special functions (MUFU), float32 arithmetic, and",
        "all. A step is a tuple in `tuple_sums`. In the passes of the series (`power_sums`, `chains`, and those of",
        "slopes by them) it is an element's harmonic, for all k positions. In the passes of products it is an",
        "element. Of their slopes, the loop that computes D again is counted: 3.5 times per element in the mean. The",
        "bound is the rate that the instructions allow on an A100 (sm_80) and an H100 (sm_90), without any other",
        "waiting. Its unit is 10⁹ steps of a hidden unit per second. How near a GPU comes to it is **not measured**.",
        "",
    ]
    header = ["kernel", "registers", "spilled", "shared", "special", "float32", "all", "bound, 10⁹/s", "by"]
    names = sorted({key.rsplit(" sm_", 1)[0] for key in cells})
    rows = ([case, *row([cells[f"{case} sm_{at}"] for at in CAPABILITIES])] for case in names)
    return "\n".join([*lines, markdown.table(header, rows)])


def row(pair):
    """Returns the table's numbers of a case, for both capabilities."""

    def both(texts):
        first, second = texts
        return first if first == second else f"{first}, {second}"

    shown = [both(str(cell[what]) for cell in pair) for what in ("registers", "spilled", "shared")]
    if "instructions" not in pair[0]:
        return shown + [""] * 5
    found = [cell["instructions"] for cell in pair]
    shown += [both(f"{each.get(what, 0):.2f}" for each in found) for what in ("special", "float32")]
    shown.append(both(f"{sum(each.values()):.1f}" for each in found))
    bounds = [bound(each, gpu) for each, gpu in zip(found, GPUS.values(), strict=True)]
    return [*shown, both(f"{fastest:.0f}" for fastest, _ in bounds), both(why for _, why in bounds)]


def main():
    """Compiles the cases that are missing or have changed, or all with --again."""
    cells = json.loads(RESULTS.read_text()) if RESULTS.exists() and "--again" not in sys.argv else {}
    wanted = {name(case, capability): (case, capability) for case, capability in product(cases(), CAPABILITIES)}
    cells = {key: cell for key, cell in cells.items() if key in wanted and cell.get("source") == source(wanted[key][0])}
    for key, (case, capability) in wanted.items():
        if key not in cells:
            compiled_with = {"triton": triton.__version__, "source": source(case)}
            cells[key] = read(compile_case(case, capability), case) | compiled_with
            RESULTS.write_text(json.dumps(cells, indent=1, sort_keys=True) + "\n")
            print(key, cells[key], flush=True)
    PAGE.write_text(page(cells))


if __name__ == "__main__":
    main()
