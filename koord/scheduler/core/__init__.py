"""The scheduler's core: objects and time in, decisions out as data. No clock, no I/O, no metrics.

| module | its question |
| --- | --- |
| `inputs` | which kinds are read, which part handles them, which pods a change may help: the one table |
| `feed`, `events` | how objects change the state and wake pending pods |
| `entity`, `queue`, `heaps` | what is scheduled next: a pod, or a whole job |
| `cycle`, `waiting`, `patience` | which node it gets, or why none; which pods wait for others |
| `decision`, `moment`, `observer` | what is decided, when, and what observes it |
| `core` | all of these together, for drivers: live, plan, explain |
"""
