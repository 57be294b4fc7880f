"""What users of a Kubernetes API take for granted: workloads become pods, and what has no owner any more goes away.

| module | what it decides |
| --- | --- |
| `actions` | the vocabulary: what a decision may ask for |
| `pods`, `ownership`, `share`, `conditions`, `status_patch`, `revisions` | what several share |
| `replica_set` | how many pods, and which goes first |
| `deployment`, `rollout`, `deployment_status` | which ReplicaSets, how big, and what is told of it |
| `stateful_set` | pods with a name of their own, in order |
| `daemon_set` | one pod on every node that takes it |
| `job`, `job_pods`, `job_indexes` | pods that end |
| `cron_job` | which Job is due |
| `endpoint_slices` | where the pods of a Service can be reached |
| `garbage`, `namespace` | what goes with its owner, or with its namespace |
| `node_lifecycle`, `taint_eviction` | nodes that are silent, and their pods |
| `disruption`, `pod_gc` | how many pods may be away; pods that nobody will miss |
| `quota` | how much of a ResourceQuota is used |
| `role_aggregation` | the rules of roles that are gathered from others |
| `claim_protection` | claims, volumes and classes of volume attributes that wait for their last user |

Each is a function of state and time whose answer is data; what new objects look like is in `koord.api.workloads`. All
loops are in `live`: `live.run.run(client)` starts them all, against any API server. Do not run them beside a
kube-controller-manager: both would answer every question.
"""
