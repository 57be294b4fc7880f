"""NodeNUMAResource: CPUs of their own for pods, and NUMA nodes that suit all that a pod asks for.

topology        the CPUs of a machine: cores, NUMA nodes, sockets
accumulator     which of the free CPUs a pod gets
hints           what plugins offer of NUMA nodes, and how a policy makes one choice of all offers
"""
