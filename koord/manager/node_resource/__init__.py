"""How much of a node is lent, by the way in which it is computed:

state      what is known: rows of pods, facts of the node, its last report
plugins    the list of calculations, each giving figures made of named terms
           (`normalization`, `amplification`, `mid`, `batch` with `zones`, `devices`)
prepare    what the Node should show
writing    whether that is worth a write, and the patch
due        when to look again although nothing happens
explain    all of it, line by line
"""
