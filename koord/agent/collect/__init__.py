"""What the node and its pods use, once a second, into the series that decisions and reports read."""
