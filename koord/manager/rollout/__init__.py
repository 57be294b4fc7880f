"""Careful roll-out: one feature of co-location after another, on some nodes first, with a stop when services suffer.

    features.py   what can be rolled out, and what is written into slo-controller-config for it
    state.py      a roll-out as it is stored, and which nodes it has chosen
    steps.py      what happens next: grow, wait, stop, complete

The configuration is written once. It goes by a label on nodes; a step of the roll-out is nothing but labels. So what
is stored stays plain Koordinator configuration, which Koordinator's own manager reads in the same way.
"""
