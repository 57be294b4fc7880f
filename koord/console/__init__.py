"""The web console: what a co-located cluster lends, uses, holds back and moves, and why, on one page.

| module | what it has |
| --- | --- |
| `shapes` | every answer of the JSON API |
| `rows`, `table` | what is kept of each object, and the figures of nodes and pods that follow |
| `overview`, `courses`, `node_map`, `changes` | the first page: figures, courses, the map of nodes, changes |
| `listings`, `details`, `reasons`, `paging` | lists, the page of one object, why pods are pending, pages of lists |
| `ring` | events for browsers, kept for those that come back |
| `acts`, `settings` | acts: what may be asked, records, differences; the settings that acts change |
| `rights` | the rights that pages and acts need |
| `numbers` | numbers and times in sentences |
| `live/` | the console on a cluster |
"""
