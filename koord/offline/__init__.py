"""Manifests in, decisions out: what would happen, with the code that decides it on a cluster.

| module | what it answers |
| --- | --- |
| `defaults` | what the API server would have filled in |
| `arrival` | what the API server's own admission would have made of a new pod |
| `denials` | what the API server would not have accepted |
| `admit` | what koord's admission would make of objects |
| `plan_admission` | the same for the new pods of a plan, fast enough for tens of thousands |
| `expand` | the pods that the workloads among manifests stand for |
| `budgets` | how many pods of a PodDisruptionBudget may be disturbed |
| `order` | whether thresholds of scheduler, descheduler and nodes are in order |
| `world` | the cluster that a set of manifests describes |
| `driver` | the scheduler's core, driven as if every binding succeeded at once |
| `patched` | an object after a merge patch |
| `field_names` | which fields of an object its kind does not have |
| `plan` | where pending pods would go, and why |
| `explain`, `explain_gang`, `explain_quota`, `explain_reservation`, `explain_workload` | why one object is pending |
| `moves`, `pod_events`, `slowdowns` | why a pod was moved, its events, what slowed it down |
| `deschedule` | what the descheduler would move |
| `node_resources` | what nodes lend, and how that is computed |
| `preview`, `would_evict` | what a new slo-controller-config would change, and evict |
| `policy_preview` | what nodes would lend by another policy |
| `rollout_preview` | what a feature would do if it were rolled out now |
| `recommend`, `recommend_patch` | what workloads should request, and the patch for it |
| `gangs`, `quotas` | the figures of `koord top` |
| `picture/` | a node drawn for people |
| `live` | a snapshot of a running cluster, as manifests |
"""
