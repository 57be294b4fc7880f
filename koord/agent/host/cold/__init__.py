"""Page cache that was not used for a while: which kernels report it, and how."""
