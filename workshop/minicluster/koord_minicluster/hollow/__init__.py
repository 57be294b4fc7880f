"""Nodes that are only modelled: they register, hold leases, run pods through their phases and report usage.

Decisions first: `phases` and `pod_status` (what becomes of a pod, and when), `load_model` and `load_replay` (what it
uses), `report` (what a node says of that), `machine` (what a node looks like), `devices` (its GPUs for claims). All I/O
is in `live/`.
"""
