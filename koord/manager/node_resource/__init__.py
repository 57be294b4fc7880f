"""What a Node should show of its resources, and whether that is worth a write:

state      what is known: rows of pods, facts of the node, its last report
plugins    the list of calculations, each giving figures made of named terms
           (`normalization`, `amplification`, `devices`; `koord.manager.lending` has batch and mid)
prepare    what the Node should show
writing    whether that is worth a write, and the patch
due        when to look again although nothing happens
explain    all of it, line by line
"""
