"""What this node lends to batch, learned from what it sees: the policy `adaptive`.

Two questions with two controllers. What protects services is a ceiling on what batch uses right now; what is sold is
the use of batch that the node is good for over the next hour.

minute       one minute of a node, measured or simulated; what batch wanted in it
protection   how far services rise before the ceiling reacts, the margin that follows, and the ceiling
counting     what a batch pod counts for
sale         the amount that is sold, what is oversold, which part of it is stable, and memory
eviction     whom to evict when batch starves
learning     `LendingMemory`: all that is remembered, and how a minute changes it
measuring    from the samples of a real node to its minute
learner      what this node has learned, from minute to minute, and what it reports
checkpoint   what survives the agent's restart
peers        the policies of other systems
"""
