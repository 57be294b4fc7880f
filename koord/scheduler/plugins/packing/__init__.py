"""Policies that place GPU pods so that little GPU is left over: as pure functions of nodes and a mix of pods.

shapes           what a pod asks for, what a node has, and how often each shape comes
fragmentation    FGD: place a pod where the least idle GPU becomes useless to the mix
cutting_stock    what a GPU share takes of a device, if devices are filled as well as they can be
group_prices     what devices, CPU and memory are worth in each group of equal nodes
fill_values      what a device with some GPU left is worth if filled well
slots            what a node is worth to pods with several GPUs
shadow_prices    place a pod where the value of what is left falls least
pod_shapes       the shape of a pod, from its requests and the models that it allows
demand           the shapes of the pods of the last days, in which older ones count less
batch            many shapes as arrays
rows             the rows of a cluster as these policies see them, and the prices in force
policy           what DeviceShare asks for a class of pods
"""
