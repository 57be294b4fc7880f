"""The socket that is served, and the process that serves it."""
