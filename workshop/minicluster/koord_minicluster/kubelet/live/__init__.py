"""A kubelet's port, its nodes in the API, and what it writes to pods."""
