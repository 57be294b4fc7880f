"""From workloads to pods: what the controllers of each kind make of its template, as functions of the object alone.

| module | what it makes |
| --- | --- |
| `new_pods` | a pod of a template, and the reference to its owner |
| `replica_sets` | a Deployment's ReplicaSet; the pods of ReplicaSets and ReplicationControllers |
| `stateful_pods` | pods by number, and their claims |
| `daemon_pods` | a pod for each node that takes it |
| `job_pods` | pods that end, with their indexes |
| `cron_jobs` | the Job of one time of a CronJob's schedule |
| `pod_claims` | a pod's ResourceClaims, from templates |
| `template_hash`, `revision` | the names of templates |

The controllers on one machine create these objects; `koord plan` places them. When, how many and in which order are the
controllers' decisions and not here.
"""
