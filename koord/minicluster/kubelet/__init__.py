"""What every kubelet does, whether it models pods or runs them: shared by `hollow` and `local`.

Decisions first: `log_query` (which part of a log is asked for). The server of a node's port is in `live/`.
"""
