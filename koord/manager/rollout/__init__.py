"""Careful roll-out: one feature of co-location after another, on some nodes first, with a stop when services suffer.

    features.py   what can be rolled out, and what is written into slo-controller-config for it
    state.py      a stored roll-out, and which nodes it has chosen
    steps.py      what happens next: grow, wait, stop, complete

The configuration is written once and selects nodes by a label; a step of the roll-out only changes labels. So the
stored configuration stays plain Koordinator, which Koordinator's own manager reads in the same way.
"""
