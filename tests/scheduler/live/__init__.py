"""The scheduler on a cluster."""
