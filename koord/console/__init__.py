"""The web console: what a co-located cluster lends, uses, holds back and moves, and why, on one page.

| module | what it has |
| --- | --- |
| `shapes` | every answer of the JSON API |
"""
