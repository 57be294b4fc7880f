"""The scheduler's core: objects and time in, decisions out as data. No clock, no I/O, no metrics.

| module | its question |
| --- | --- |
| `inputs` | which kinds are taken in, by whom, and whom a change may help: the one table |
| `feed` | what objects come to: the state, and who waits |
| `queue` | who is next |
| `cycle` | where it goes, or why nowhere |
| `core` | all of that as one thing, for drivers: live, plan, explain |
"""
