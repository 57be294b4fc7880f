"""Where the simulator meets files and clusters.

traces     opens the files of a trace, plain or packed, and has them read
parquet    Parquet files in chunks, by duckdb
"""
