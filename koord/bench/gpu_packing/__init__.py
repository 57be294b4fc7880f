"""`koord bench gpu-packing`: how much of a cluster's GPUs do placement policies get allocated?

traces       a cluster, a trace of pods and the order of their arrival, read from files or made up
baselines    the policies that others compare with
replay       one pod after the other, placed by a policy or by the engine
verifier     whether a replay kept to what nodes have, without knowing how it was done
ceiling      what no policy can exceed
curves       what is measured on the way
plot         the same as an SVG picture
run          all of it: traces, seeds, policies
"""
