"""Learnt pairs: which workloads had better not share a node. `learning` decides, `manager.live.pairs` writes."""
