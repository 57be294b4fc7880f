"""DeviceShare: GPUs, RDMA cards and FPGAs, whole or shared, counted one by one.

requests    what a pod asks of devices: which requests are valid, and what they come to for each device
templates   parts of devices that may be asked for, by model
inventory   what a Device object says a node has
grants      what a pod got, as its annotation says
ledger      what is left of every device of every node, in columns too
room        the devices of one node as one pod sees them
topology    GPUs that lie close together
partitions  GPUs that are linked, by the node's table
allocate    which devices a pod gets on one node
scoring     which nodes and devices are preferred
alignment   on which NUMA nodes the devices of a pod could be
changes     what would make a node take a pod that it has no devices for
figures     every device with its pods, from objects alone
service     what is reported about a node's devices
adapters    what vendors' own device plugins want to read on a pod
locks       nodes whose device plugin handles one pod at a time
judge       the class of a pod, over all nodes; and check: the devices of the node that won
plugin      DeviceShare itself
"""
