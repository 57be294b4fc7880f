"""Policies that place GPU pods so that little GPU is left over: as pure functions of nodes and a mix of pods.

shapes           what a pod asks for, what a node has, and how often each shape comes
fragmentation    FGD: place a pod where the least idle GPU becomes useless to the mix
cutting_stock    what a GPU share takes of a device, if devices are filled as well as they can be
group_prices     what devices, CPU and memory are worth in each group of equal nodes
fill_values      what a device with some GPU left is worth if filled well
shadow_prices    place a pod where the value of what is left falls least
"""
