"""The settings with which each pod is created and kept: pure functions from pod and node to wishes.

The agent's executor delivers them to what runs; a CRI proxy and an NRI plugin can deliver the same wishes before a
container exists.
"""
