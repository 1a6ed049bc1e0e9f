"""The number of an element's harmonics that a thread should compute at a time for k = 4.

    python -m studies.experiments.gpu.harmonics

Prints instructions per harmonic of an element, and spills, for compute capability 8.0. docs/gpu-kernels.md quotes them.
"""

from dataclasses import replace

from studies.experiments.gpu.cases import of_series
from studies.experiments.gpu.kernels import compile_case, read

NAMES = ("power_sums k=4 float32", "chains k=4 float32", "slopes_by_chains k=4 float32")


def main():
    """Compiles each pass with one to four harmonics."""
    print("| pass | harmonics | float32 | all | loads | registers | bytes spilled |")
    print("|---|---|---|---|---|---|---|")
    for case in of_series():
        for num in range(1, 5) if case.name in NAMES else ():
            of_num = replace(case, constants=case.constants | {"HARMONICS": num}, num=num)
            cell = read(compile_case(of_num, 80), of_num)
            each = cell["instructions"]
            row = num, f"{each['float32']:.0f}", f"{sum(each.values()):.0f}", each["load"], cell["registers"]
            print("|", " | ".join(map(str, (case.name, *row, cell["spilled"]))), "|", flush=True)


if __name__ == "__main__":
    main()
