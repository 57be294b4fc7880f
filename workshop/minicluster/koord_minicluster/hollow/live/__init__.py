"""The shells of hollow nodes: one process, one pod informer and one kubelet endpoint for all of them."""
