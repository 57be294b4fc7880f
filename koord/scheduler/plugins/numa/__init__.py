"""NodeNUMAResource: CPUs of their own for pods, and NUMA nodes that suit all that a pod asks for.

hints       what plugins offer of NUMA nodes, and how a policy makes one choice of all offers
"""
