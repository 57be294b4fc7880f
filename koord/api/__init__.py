"""The words: everything the protocol names, typed. Pure; imports nothing else of koord.

| room | what it has |
| --- | --- |
| `kubernetes` | lean objects of Kubernetes, and what follows from them: requests, taints, cgroup paths |
| `protocol` | Koordinator's names, kinds (`crd`), structured `annotations`, priority bands and QoS classes |
| `configuration` | configuration files, feature gates, flags, `slo-controller-config`, the one threshold model |
| `text` | scalars and small languages, exactly: quantities, durations, selectors, YAML, CPU lists, manifests |
| `machinery` | what the others are made with: base type, bytes to objects, faults, schemas |
| `builtin_schemas` | the shapes of Kubernetes' built-in kinds, from a table of facts |
| `workloads` | what controllers make of templates: pods, names, owners, revisions |
| `cel` | the expression language of Kubernetes: read, typed, priced and run |
| `stats` | decaying histograms |
| `kinds` | the list of all kinds: where each lives in the API, and which type reads it |

A module is imported by its name (`from koord.api.kubernetes.core import Pod`), so that a program pays for what it uses.
"""
