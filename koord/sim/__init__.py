"""A cluster in virtual time, decided by the code that decides on a real one.

scenario   what a scenario file says, and what is wrong with it
cluster    what a run begins with: nodes, services with their places, batch pods to come
outcome    what a run came to
columns    services and batch pods as arrays: what readers of traces and generators produce
oracle     a policy that knows the next hour: the measure of the others
fluid      the bound that no policy exceeds
"""
