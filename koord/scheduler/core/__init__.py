"""The scheduler's core: objects and time in, decisions out as data. No clock, no I/O, no metrics.

| module | its question |
| --- | --- |
| `inputs` | which kinds are taken in, by whom, and whom a change may help: the one table |
| `feed`, `events` | what objects come to: the state, and who waits |
| `entity`, `queue`, `heaps` | who is next: pods, or whole jobs |
| `cycle`, `waiting`, `patience` | where it goes, or why nowhere; who waits for others |
| `decision`, `moment`, `observer` | what is decided, when, and who looks on |
| `core` | all of that as one thing, for drivers: live, plan, explain |
"""
