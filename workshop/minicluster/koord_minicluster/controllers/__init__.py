"""The controllers that users of a Kubernetes API expect: workloads become pods, and objects without an owner go away.

| module | what it decides |
| --- | --- |
| `actions` | the vocabulary: the actions that a decision may contain |
| `pods`, `ownership`, `share`, `conditions`, `status_patch`, `revisions` | code that several controllers share |
| `replica_set` | how many pods, and which pod goes first |
| `deployment`, `rollout`, `deployment_status` | the ReplicaSets, their sizes, and the status |
| `stateful_set` | pods with a name of their own, in order |
| `daemon_set` | one pod on every node that takes it |
| `job`, `job_pods`, `job_indexes` | pods that end |
| `cron_job` | which Job is due |
| `endpoint_slices` | where the pods of a Service can be reached |
| `garbage`, `namespace` | what goes with its owner, or with its namespace |
| `node_lifecycle`, `taint_eviction` | nodes that are silent, and their pods |
| `disruption`, `pod_gc` | how many pods may be disrupted; garbage pods |
| `quota` | how much of a ResourceQuota is used |
| `role_aggregation` | the rules of roles that are gathered from others |
| `live` | the loops, all of them |
| `resource_claims` | claims of devices: made from templates, and released when no pod uses them |
| `claim_protection` | claims, volumes and classes of volume attributes that wait for their last user |

Each is a function of state and time that returns data; the templates of new objects are in `koord.api.workloads`. All
loops are in `live`: `live.run.run(client)` starts them all, against any API server. Do not run them beside a
kube-controller-manager: both would act on every object.
"""
