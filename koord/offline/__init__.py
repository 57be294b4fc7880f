"""Manifests in, decisions out: what would happen, with the code that decides it on a cluster.

| module | what it answers |
| --- | --- |
| `defaults` | what the API server would have filled in |
| `arrival` | what the API server's own admission would have made of a new pod |
| `denials` | what the API server would not have taken |
| `admit` | what koord's admission would make of objects |
| `door` | the same for the new pods of a plan |
| `expand` | what pods the workloads among manifests stand for |
| `world` | what the cluster is that a set of manifests describes |
| `plan` | where its pending pods would go, and why |
"""
