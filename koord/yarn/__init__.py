"""Hadoop YARN on reclaimed resources.

`amount` and `split` say how one pool is divided between YARN and Kubernetes, `claims` in which steps the division may
change. `hadoop` has Hadoop's words: its protobuf messages, its RPC frames, its configuration files. `containers` is
what the copilot knows of a NodeManager's containers. `live` talks to ResourceManagers, to the API server and to
processes.
"""
