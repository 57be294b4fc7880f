"""Faults at random while load runs, and whether the cluster keeps its promises.

| module | what it has |
| --- | --- |
| `kinds` | every kind of fault, as one literal list |
| `drawing` | which faults happen when, by a seed; as JSON, to repeat them; halved, to find those that matter |
| `recovery` | how long each kind took to recover from, as a table |
| `live` | injects and heals them: on a cluster of its own, on a running `koord up`, or through a kubeconfig |
"""
