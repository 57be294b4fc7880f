"""The descheduler: which pods sit badly, which of them may move, in which order, and the next step of each move.

Finding pods to move

sight              what a round looks at: nodes, pods, reports, workloads, moves under way
malformed          the same without malformed objects
places             where a pod that leaves would go, tried out on the scheduler's own state
compiled           a configuration, ready for rounds
plugin             what a plugin is; `plugins/` has one file each, `registry` is the list, `own_plugins` loads others
selection          the nodes and pods that a plugin looks at
load               how loaded nodes are; `usage_estimate` for pods without a measurement
anomaly            whether a node was overloaded for long enough
node_preferences   the nodes that a pod may run on, and prefers
round              one round of all profiles: what they propose, and what is let through
settings_in_force  the settings of the leader, for `koord deschedule --live`

Deciding which may move

rules              a profile's rules about moving pods
evictable          which pods may be moved at all, and which not yet
workloads          how many pods a workload has, and how many of them may be away at once
moves              the moves that count against limits
limiter            how many pods of a workload or a namespace may be moved in a time
importance         which pods to move first
arbitration        which requested moves may start now

Moving a pod

job_request        the PodMigrationJob that requests a move, and which jobs wait or are under way
migration          the next step of a move: `job_status`, `migration_step`, `eviction`, `replacement_wait`
replacement        the reservation for the replacement; `held_room` says which job it belongs to
parting            notice before an eviction; `scale_first` for a replacement before it
cooling            the annotation of a node after a move, so that the scheduler does not undo it
job_events         the events of a move

annotations        the labels and annotations that the descheduler reads
live               carries all of it out on a cluster
"""
