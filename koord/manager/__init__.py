"""The cluster's side of co-location: what nodes lend, how they measure it, and how they protect services.

| module | what it decides |
| --- | --- |
| `lending/` | how many batch and mid resources a node lends, by policy |
| `node_resource/` | what a Node shows: what it lends, device totals, normalisation and amplification, and why |
| `node_metric` | how a node measures and reports: the spec of its NodeMetric |
| `node_slo` | how a node protects its services: the spec of its NodeSLO |
| `quota_profile` | the root of a quota tree, made of a set of nodes |
| `waiting_pods` | what profiles give to pods that wait for a node already |
| `config_in_force` | which configuration holds while the stored one is invalid |
| `config_condition` | what is told about a configuration that cannot be used |

Each is a function of state and time whose answer is data. `live` has the loops, and all I/O: `live.run.run(client)`.
"""
