"""Kubelet's pod-resources socket, with what the scheduler gave to pods: a process of its own beside the agent.

`merge` changes kubelet's answers, which are bytes in and bytes out; `live` serves them. gRPC costs 25 MB, which the
agent would pay on every node: it starts this process only where the gate PodResourcesProxy is on.
"""
