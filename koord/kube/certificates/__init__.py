"""Certificates that koord makes: `making` has the common parts, `own` is for a process that no client verifies."""
