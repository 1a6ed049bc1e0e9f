"""Scores after a budget of CPU seconds, our models beside tuned baselines. docs/anytime.md has the findings.

python -m studies.experiments.anytime.study --data FOLDER    # with a folder per table, of train.* and test.*
"""
