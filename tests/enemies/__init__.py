"""Objects that API servers take and nobody meant: what components do with them, and with everybody beside them."""
