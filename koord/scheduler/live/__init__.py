"""The scheduler on a cluster: drives `koord.scheduler.core`, and decides nothing.

`sources` puts objects into the core, `loop` takes decisions out, `binding`, `preempting`, `handing_over` and `telling`
carry them out, `dividing` has schedulers wait for each other, and `run` puts them together. All loops and all I/O of
the scheduler are here.
"""
