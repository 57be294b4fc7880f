"""`koord bench gpu-packing`: how much of a cluster's GPUs do placement policies get allocated?

traces        a cluster, a trace of pods and the order of their arrival, read from files or made up
baselines     the policies that others compare with
replay        one pod after the other, placed by a policy
engine        the same by koord's scheduling engine, with the nodes and pods of the simulator
policies      all of these by name
verifier      whether a replay kept to what nodes have, without knowing how it was done
ceiling       what no policy can exceed
arrivals      pods that come and stay: how much is allocated
by_time       pods that come and go, in koord's simulator: how much they wait for
published     what others have found for the same orders of arrival
plot          the curves as an SVG picture
run           all of it: traces, seeds, policies
speed         how fast the engine places pods with GPUs
"""
