"""Sets in Parquet files, of which memory holds a few row groups at a time: read, learnt from by several processes."""
