"""koord on somebody's cluster: which objects that takes, what has to change for it, and how it is taken away again.

settings.py   what a person may choose
objects.py    the objects, as a pure function of the settings; extras.py is where further ones are added
rights.py     what each component may do, and why: one table, from which roles and the docs are made
plan.py       what has to be created, patched or refused: a pure function of wanted and live objects
kind_change.py what objects would lose by another definition of their kind
migration.py  by which steps a component changes hands between Koordinator and koord
record.py     what was installed, kept in a ConfigMap
traces.py     what koord's components wrote on objects of others
live/         reads the cluster and carries plans out
"""
