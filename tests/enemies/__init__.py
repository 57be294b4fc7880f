"""Objects that API servers accept and no user meant: what components do with them, and with everybody beside them."""
