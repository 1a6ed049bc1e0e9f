"""Runs of many trials: one file per result, written as it comes and read by a schema; resumed; shown and reported."""
