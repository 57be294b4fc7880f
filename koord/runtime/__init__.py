"""koord in front of containers, before they start: a proxy of the container runtime interface, and a plugin of NRI.

Both ask the agent for the settings of a pod or container (`agent.hooks`), and put them into the request to the
runtime.

cri             the messages of the container runtime interface that are looked into
hook_service    the messages of Koordinator's RuntimeHookService
stages          the moments at which hook servers are asked
records         what is remembered of sandboxes and containers
intercept       from a runtime's request to a hook's, and the answer back into it
hook_files      hook servers as files register them
"""
