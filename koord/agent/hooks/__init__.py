"""What the kernel shall know of each pod: pure functions from pod and node to writes.

The agent's reconciler, a CRI proxy and an NRI plugin deliver the same wishes, each in its way.
"""
