"""Certificates that koord makes: `making` is what all have in common, `own` is for a process that nobody verifies."""
