"""The console on a cluster: informers, pages over HTTP, sessions and rights of viewers, acts.

| module | what it has |
| --- | --- |
| `run` | starts and ends it all |
| `world` | informers, one per kind for all viewers, and what changed each second |
| `viewers` | who a viewer is and what this viewer may do, by the viewer's own credentials |
| `guard` | sessions, links with tokens, and the checks before any request is answered |
| `server` | the JSON API and the pages |
| `pages` | the routes of lists and of single objects |
| `acts`, `act_plans` | acts of viewers: preview, confirm, progress, record, undo; what each would do |
| `commands` | commands of koord that are run for a viewer |
| `history` | bands over time from Prometheus |
| `scheduler_reasons` | why pods are pending, as the scheduler lists it |
"""
