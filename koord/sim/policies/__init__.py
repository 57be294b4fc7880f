"""Lending policies on columns: the same decisions as on one node, for all nodes at once.

policy     what a policy is; a new one is a file with its class, and a line in `registry`
registry   the list, in the order in which tables show it

none           no co-location
koordinator    usage, request, maxUsageRequest
mid            mid resources by prediction
peers          caster, LAR, Crane and Katalyst, by the agent's own code
adaptive       koord's own
suppression    how Koordinator's agent holds batch back, and evicts it

histograms   decaying histograms of all nodes
reports      what a NodeMetric reports
pods         columns of batch pods
"""
