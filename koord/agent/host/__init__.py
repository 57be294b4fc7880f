"""The kernel as the agent sees it: the only code that touches /proc, /sys and system calls."""
