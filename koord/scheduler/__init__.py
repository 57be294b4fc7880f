"""Where a pod goes.

| module | what it has |
| --- | --- |
| `core` | the whole scheduler without clock and I/O: objects and time in, decisions out |
| `state` | the cluster as a table: nodes in rows, facts in columns, pods on them, undo |
| `framework` | classes of pods, plugins' judges, the engine that decides |
| `plugins`, `registry`, `own_plugins` | one policy a file; the list of them; plugins of users |
| `profiles` | plugins and their order for each scheduler name, from the configuration |
| `shards` | parts of a cluster that several schedulers share |
| `explain`, `message`, `suggestion`, `claims` | why a pod is where it is, or pending, as data and as text |
| `smallest`, `job_changes` | the smallest change that makes a pod or a job schedulable |
| `diagnosis`, `auditor` | answers of a running scheduler about its decisions; alerts about slow scheduling |
| `annotations`, `object_faults` | the labels and annotations that the scheduler reads, and faults in its objects |
| `live` | the loop on a cluster: informers, binding, events, metrics |
"""
