"""NodeNUMAResource: CPUs of their own for pods, and NUMA nodes that suit all that a pod asks for.

node_numa_resource  the plugin
wants               what a pod asks for
facts               what is known of a node's CPUs and NUMA nodes
topology            the CPUs of a machine: cores, NUMA nodes, sockets
allocation          what one pod holds: its note
on_node             what the pods of one node hold, and what is left
allocations         the same for all nodes, in columns
formulas            verdicts and scores of rows, from columns
judge               what the plugin says of rows
check, own_cpus     the exact look at the row that wins: NUMA amounts, and CPUs of the pod's own
explanation         what reasons mean on rows, and what would help
zones, alike        NUMA nodes judged by amounts, and what was said of rows that look the same
hints               what plugins offer of NUMA nodes, and how a policy makes one choice of all offers
split               how amounts are shared out among NUMA nodes
accumulator         which of the free CPUs a pod gets
result              what is written on the pod
changes             what would help, in words and as changes to try out
figures, service    what people see of it
"""
