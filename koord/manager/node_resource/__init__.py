"""What a Node should show of its resources, and whether that is worth a write:

plugins        the list of plugins, each with figures made of named terms
normalization  plugin: what a CPU of this node is worth
amplification  plugin: how many times the node's allocatable is shown
devices        plugins: GPU and RDMA totals (`koord.manager.lending` has batch and mid)
prepare        what the Node should show, from the outcomes of all plugins
writing        whether that is worth a write, and the patch
requeue        when to reconcile again without an event
explain        all of it, line by line
"""
