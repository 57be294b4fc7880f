"""Page cache that nobody has used for a while: which kernels tell it, and how."""
