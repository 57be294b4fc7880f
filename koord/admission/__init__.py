"""What a new pod, node, reservation, quota or configuration may look like, and what is filled in. Pure.

| module | what it has |
| --- | --- |
| `request` | a request (an object that will be stored) and the answer to it |
| `cluster_facts` | what rules may look up: namespaces, profiles, priority classes, nodes, configuration |
| `rule` | what a rule is, and what it may use to decide |
| `hook` | what a webhook entry is, and its parts |
| `resource` | what a reviewed resource is: its type, webhooks, rules and lookups |
| `resources` | the list of resources; a new one is one file and one line there |
| `pods`, `nodes`, `reservations`, `elastic_quotas`, `config_maps` | one resource each |
| `agents` | what agents may write: about their own node alone |
| `hooks` | which webhooks are on, and which are registered with API servers |
| `review` | the reviews: `mutate`, `validate`, and `admit` for both |
| `profiles`, `colocation_profile`, `pod_colocation` | profiles of pods |
| `resource_translation`, `pool_names`, `extended_resource_spec` | from cpu and memory to batch resources |
| `pod_devices`, `device_resources`, `pod_quota` | devices and quotas of pods |
| `pod_enhanced`, `recommended_requests`, `readable` | other rules of pods |
| `scheduler_annotations`, `binding` | which annotations only the scheduler may write |
| `quota_objects`, `quota_topology`, `quota_tree_affinity` | rules of quotas |
| `node_amplification`, `node_config`, `slo_config` | rules of nodes and of the configuration |
| `plain`, `typed`, `json_patch`, `strategic_merge` | objects as data and as types; patches |
| `break_glass` | bypasses admission in an emergency |
"""
