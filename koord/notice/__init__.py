"""Notice: pods that ask for it are told before they are evicted, whoever evicts them.

`decision` has the whole protocol, as a function of the pod and the time. `live` writes what it says. The scheduler's
preemption and revoke, the agent, the descheduler and `koord colocation off --evict` all go by it.
"""
