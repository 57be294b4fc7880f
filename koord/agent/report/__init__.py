"""What the node tells the cluster of itself."""
