"""Lending policies on columns: the same decisions as on one node, for all nodes at once.

policy     what a policy is; a new one is a file with its class, and a line in `registry`
registry   the list, in the order in which tables show it
"""
