"""What every kubelet does, whether it models pods or runs them: shared by `hollow` and `local`.

Decisions first: `states` (where a container is, and back-off), `pod_status` (what is told of it), `termination` (when a
pod must end, and what is done with it then), `node_status` (what a node says of itself), `beats` (when it says so
again), `log_query` (which part of a log is asked for). The node's port, its registration and its writes to pods are in
`live/`.
"""
