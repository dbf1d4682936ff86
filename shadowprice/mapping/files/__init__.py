"""Delimited and Parquet files, read in bounded memory as Arrow."""
