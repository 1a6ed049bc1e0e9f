"""Scores after a budget of CPU seconds, ours beside tuned baselines: docs/anytime.md says what was found.

python -m studies.experiments.anytime.study --data FOLDER    # with a folder per table, of train.* and test.*
"""
