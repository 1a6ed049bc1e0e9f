"""Runs of many trials: a file a result, written as it comes and read by a schema; resumed; shown and reported."""
