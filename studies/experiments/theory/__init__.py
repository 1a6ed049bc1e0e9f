"""The paper's two theorems, measured. docs/theory.md has the findings.

    python -m studies.experiments.theory.staircase      # Theorem 2.1: what k-ary pooling fits and (k−1)-ary cannot
    python -m studies.experiments.theory.convergence    # Proposition 2.2: π-SGD, and the bound of its proof

Each writes JSON, a table in Markdown and a figure to docs/results/theory.
"""
