"""What must be true, whatever happens. Nothing here imports koord or reads its state.

| module | what it has |
| --- | --- |
| `invariant` | an invariant: its name, the promise to users, and the function that finds violations |
| `promises` | all invariants, in chapters: `docs/what-we-promise.md` |
| `manifests` | reads annotations, amounts and labels |
| `moment` | all objects of one moment, and what came since the last look |
| `placing` | what pods are given on nodes: CPUs, NUMA amounts, devices, quotas, reservations |
| `neighbours` | whom a pod has beside it: taints, anti-affinity, ports |
| `linked_devices` | linked GPUs, and network cards close to them |
| `resting` | when nothing is left to do: whole gangs, no forgotten pod, no stale figure |
| `history` | over time: durable writes, one leader, protected services |
| `moving` | migrations end, and keep their limits |
| `cgroups` | cgroup files: in time, steady, restored |
| `processes` | components recover, with bounded memory |
"""
