"""The descheduler: which pods sit badly, which of them may move, and in which order.

sight           what a round looks at: nodes, pods, reports, workloads, moves under way
places          where a pod that leaves would go, tried out on the scheduler's own state
compiled        a configuration, ready for rounds
plugins         what sits badly, and why; one file each, `registry` is the list
rules           a profile's rules about moving pods
evictable       which pods may be moved at all, and which not yet
workloads       how many pods a workload has, and how many of them may be away at once
importance      whom to move first
round           one round of all profiles: what they ask for, and what is let through
cooling         what a node says after a pod was moved away, so that the scheduler does not undo it
arbitration     of the moves that are asked for, which may begin now
job_request     the PodMigrationJob that asks for a move, and which jobs wait or are under way
migration       the next step of one move; `replacement` the room that is held for it
told            what people hear of a move
live            has all of it done on a cluster
"""
