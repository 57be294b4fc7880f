"""A kubelet's port."""
