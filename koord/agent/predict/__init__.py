"""How much pods, bands and the node will use at their peak, by what they used: decaying histograms.

model       one histogram of CPU and one of memory, and which percentiles count as a peak
training    the samples of the last minute, for each model
reclaim     what prod pods requested and will not use, and how high prod can rise
misses      how often a forecast was too low in the last day, and by how much
forecast    all of it together, as one value that reports tell
"""
