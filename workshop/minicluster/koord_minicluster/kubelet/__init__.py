"""The common part of a kubelet that models pods and one that runs them: shared by `hollow` and `local`.

Decisions: `states` (container states and back-off), `pod_status` (the reported status), `termination` (when a pod must
end, and what happens then), `node_status` (the node's own status), `beats` (when the node reports again), `log_query`
(which part of a log is requested). The node's port, its registration and its writes to pods are in `live/`.
"""
