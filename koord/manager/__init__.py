"""The cluster's side of co-location: what nodes lend, how they measure it, and how they protect services.

| module | what it decides |
| --- | --- |
| `plugin` | what a plugin of node resources is: one calculation about a node, and its outcome |
| `node_state` | what is known about one node: its pods, facts, report, topology and devices |
| `figures` | an amount of a resource and the terms that it was computed from |
| `colocation_settings` | values of a node's co-location settings, and where each was set |
| `lending/` | how many batch and mid resources a node lends, by policy |
| `node_resource/` | what a Node shows: the list of plugins, what the Node should show, whether to write it, and why |
| `node_metric` | how a node measures and reports: the spec of its NodeMetric |
| `node_slo` | how a node protects its services: the spec of its NodeSLO |
| `quota_profile` | the root of a quota tree, made from a set of nodes |
| `waiting_pods` | what profiles give to pods that are already pending |
| `recommend/` | which requests the containers of a workload should have, from what they used |
| `rollout/` | one feature of co-location after another, on some nodes first, with a stop when services suffer |
| `pairs/` | which workloads should not share a node, learnt from reported interference |
| `policy_switch` | what is written where to switch the lending policy, for the cluster or a pool of nodes |
| `threshold_switch` | what is written where to set thresholds, for the cluster or a pool of nodes |
| `colocation_switch` | what is written where to turn co-location off or on |
| `config_in_force` | which configuration applies while the stored one is invalid |
| `config_condition` | how an invalid configuration is reported |
| `annotations` | the labels and annotations that the manager reads |
| `live` | the loops and all I/O |
| `writes` | the field manager of everything that the manager writes |

Each is a function of state and time whose answer is data. `live` has the loops and all I/O: `live.run.run(client)`.
Imports go one way: `figures`, `node_state`, `plugin` <- `lending` <- `node_resource` <- `live`.
"""
