"""Processes, probes, the API: what makes this machine a node."""
