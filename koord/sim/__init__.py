"""A cluster in virtual time, decided by the code that decides on a real one.

scenario   what a scenario file says, and what is wrong with it
cluster    what a run begins with: nodes, services with their places, batch pods to come
outcome    what a run came to
columns    services and batch pods as arrays: what readers of traces and generators produce
minutes    a minute of all nodes: what policies learn from
mix        the cluster of a scenario, from traces: nodes packed with services, batch pods
traces     readers of traces
history    what a recording of a cluster contains
policies   what nodes lend, as values chosen by name
oracle     a policy that knows the next hour
fluid      the most that any policy could do
chance     numbers from a seed and names
run        a run, minute by minute
steps      the steps of a minute, on a stage that holds the world and the scheduler
physics    how use varies in a minute, and what batch gets; curves and tasks say who wants what
placing    the scheduler's core, with pods and nodes as objects
publishing when the manager writes what nodes lend
descheduling  a round of the descheduler, and the moves that it begins
faults     failures of nodes and lost reports
checkpoint the state of a run as bytes, and back
jobs       which runs answer a question
overrides  what `--set` changes in a scenario
statistics means over seeds, with intervals
compare    policies beside each other, over seeds
what_if    what other settings would have changed on the same history
sweep      many settings of a scenario
pareto     which of them are worth considering
report     figures, tables and pages
live       traces, checkpoints, worker processes and Dask
"""
