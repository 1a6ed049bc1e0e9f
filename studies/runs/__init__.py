"""Runs of many trials: one file per result, checked by a schema; resumable, with display and reports."""
