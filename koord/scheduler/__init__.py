"""Where a pod goes.

| package | what it has |
| --- | --- |
| `state` | the cluster as a table: nodes in rows, facts in columns, pods on them, undo |
| `framework` | classes of pods, plugins' judges, the engine that decides |
| `plugins` | one policy a file |
"""
