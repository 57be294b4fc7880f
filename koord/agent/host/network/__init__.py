"""The network of a node, spoken to by netlink: queues and classes of interfaces, and which class a packet is of."""
