"""Stories: load that mixes everything koord has, repeatable by its seed.

| module | what it has |
| --- | --- |
| `dice` | random choices that stay the same for ever |
| `hardware` | CPU topologies, GPUs and RDMA cards of nodes |
| `actions` | what can happen: objects come, change and go, the scheduler restarts |
| `script` | what happens next in a story |
| `features` | everything that stories mix, as one literal table |
| `reservation_features` | the lines of the table that are about reservations |
| `memory` | a story in memory: an API of dictionaries, and the core of the scheduler |
| `recorded` | a story as a list: kept in a file, played again, shortened |
| `play` | one story from its seed to its end, with its violations |
"""
