"""How other systems share a node: the lending formulas of caster, Crane, Katalyst and LAR.

Each answers what `adaptive` answers: what the node is good for (which the scheduler sells), what batch may use right
now (the box), and which batch pods go. Its memory is an immutable value, folded minute by minute, so the same code runs
in the agent and in the simulator.

policy      the contract of these policies: the node, a minute's load, the lines of a calculation
caster      Bilibili: a watermark less what runs outside of the box
crane       Tencent: allocatable less a reserve and the larger of forecast and measurement
katalyst    ByteDance: a share pool that is regulated, and the headroom of the rest
lar         Meituan: pools with bands of load, and static amounts by the resource configuration factor
flow        LAR's flow of cores between pools
hours       the means and peaks of the last days, by the hour
detection   Crane's counters of triggered and restored
registry    the list
learned     what is remembered, and the figures that follow
learning    from a minute of this node to what it has learned by the policy in force
checkpoint  what of it survives the agent's restart
"""
