"""Fits to sets in Parquet files, a few row groups of which are in memory at a time, by one or several processes."""
