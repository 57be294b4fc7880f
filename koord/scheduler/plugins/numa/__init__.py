"""NodeNUMAResource: CPUs of their own for pods, and NUMA nodes that suit all that a pod asks for.

node_numa_resource  the plugin
wants               what a pod asks for
facts               what is known of a node's CPUs and NUMA nodes
topology            the CPUs of a machine: cores, NUMA nodes, sockets
allocations         what the pods on every node hold: notes and columns
judge               what the plugin says of rows, and the exact look at the one that wins
zones, alike        NUMA nodes judged by amounts, and what was said of rows that look the same
hints               what plugins offer of NUMA nodes, and how a policy makes one choice of all offers
split               how amounts are shared out among NUMA nodes
accumulator         which of the free CPUs a pod gets
result              what is written on the pod
changes             what would help, in words and as changes to try out
figures, service    what people see of it
"""
