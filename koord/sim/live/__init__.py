"""Where the simulator meets files and clusters.

traces     opens the files of a trace, plain or packed, and has them read
parquet    Parquet files in chunks, by duckdb
recording_folder       the files of a recording, and how it is continued
cluster_recording      records a running cluster
prometheus_recording   records what a Prometheus has
"""
