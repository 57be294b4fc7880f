"""The table form of a trace: what `koord sim record` writes, and what anyone can write from their own history.

Three files, each as CSV or Parquet: services, batch and nodes. They are read in chunks, so memory is bounded by the
columns that come out, and these have a limit.

chunks     lines of a file as columns, a few thousand at a time
columns    which columns each file may have, and their units
services   samples of services to curves
batch      tasks, or samples of tasks, to batch pods
nodes      nodes, and what they use outside of pods
reading    all files of a folder together
"""
