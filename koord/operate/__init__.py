"""koord in operation: what it is watched by, and what it was worth.

alerts.py   when somebody should look, each with a runbook
boards.py   Grafana boards
worth.py    what was lent, used, evicted and saved, by namespace, quota and workload
sizing.py   what right-sizing would save
live/       reads Prometheus and the API
"""
