"""The agent as a daemon: kubelet, the API server, the clock."""
