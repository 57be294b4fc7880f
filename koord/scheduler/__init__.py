"""Where a pod goes.

| package | what it has |
| --- | --- |
| `core` | the whole scheduler without clock and I/O: objects and time in, decisions out |
| `state` | the cluster as a table: nodes in rows, facts in columns, pods on them, undo |
| `framework` | classes of pods, plugins' judges, the engine that decides |
| `plugins` | one policy a file |
"""
