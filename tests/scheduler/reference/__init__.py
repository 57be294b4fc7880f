"""A plain reading of the scheduler's rules: one pod, one node, one plugin at a time.

The engine answers the same questions with vectors, caches and undo logs; this package answers them as slowly and as
plainly as the rules are written, so that the two can be compared. It is proved itself against recordings of the real
kube-scheduler. Start at `cycle`.
"""
