"""What every kubelet does, whether it models pods or runs them: shared by `hollow` and `local`.

Decisions first: `states` (where a container is, and back-off), `pod_status` (what is told of it), `node_status` (what a
node says of itself), `log_query` (which part of a log is asked for). The server of a node's port is in `live/`.
"""
