"""Stories: load that mixes everything koord has, repeatable by its seed.

| module | what it has |
| --- | --- |
| `dice` | random choices that stay the same for ever |
| `hardware` | CPU topologies, GPUs and RDMA cards of nodes |
| `script` | what happens next in a story |
| `memory` | a story in memory: an API of dictionaries, and the core of the scheduler |
| `play` | one story from its seed to its end, with its violations |
"""
