"""What workloads should request, by what they use: pure decisions about Recommendation objects.

history     what the containers of one workload used, as histograms in which old samples fade, and what follows
pods        what is kept of pods: their workload, revision, requests, and whether a container was killed for memory
reports     what a NodeMetric says of these pods
status      what the object shall say, and whether that is worth a write
"""
