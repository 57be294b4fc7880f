"""What must be true, whatever happens. Nothing here imports koord or reads its state.

| module | what it has |
| --- | --- |
| `invariant` | an invariant: its name, the promise to users, and the function that finds violations |
| `placing` | what pods are given on nodes: CPUs, NUMA amounts, GPUs, quotas, reservations, gangs |
"""
