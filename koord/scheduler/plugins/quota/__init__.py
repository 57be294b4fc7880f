"""Elastic quotas: how teams share a cluster by guarantees, limits and weights.

share           the fair share of siblings: exact integers
tree            quotas as a tree: requests and use add up, shares are worked out on the way down
spec            a quota as its object says it, and what is wrong with it
forest          all quotas of a cluster: which tree each is in, which cannot be used, whose pods are whose
quotas          the state of the cluster: what pods ask for and use of each quota
refusals        pods that a quota refuses, and `refused_pods`: which of them may go next
elastic_quota   the plugin
"""
