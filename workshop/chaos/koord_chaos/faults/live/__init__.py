"""Injects faults and heals them.

| module | what it has |
| --- | --- |
| `api_path` | the way of one component to the API server: a proxy that can disturb it |
| `ledger` | what each component writes: only leaders do, and few may evict |
| `places` | every node that a pod was ever on, gangs, and amounts that were there |
| `preload` | clocks that jump and disks that are slow, for child processes |
| `small_disk` | a file system of its own that can be full |
| `memory_limit` | a cgroup of its own that limits the memory of a process |
| `own_cluster` | a cluster of koord's processes that all these can disturb |
| `virtual_time` | an event loop whose time jumps ahead while nothing happens |
| `virtual_cluster` | a whole cluster in one process, in virtual time |
| `clusters` | running clusters: `koord up`, and any by its kubeconfig |
| `injectors` | each kind of fault: inject, wait, heal |
| `load` | pods that come and go while faults happen |
| `checks` | whether the cluster is ready again, and keeps its promises |
| `run` | rounds of faults, one after the other |
"""
