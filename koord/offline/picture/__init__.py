"""A node drawn for people: one module for each section, all of them listed in `picture`.

section     what a section is: a title, lines for a terminal, and the same as data
cpus        sockets, NUMA nodes, cores with their threads, and who has them
devices     GPUs and other devices, and the pods that use them
forecast    how high prod pods are predicted to rise, and how often the last day's predictions were too low
"""
