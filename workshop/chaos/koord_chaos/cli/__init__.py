"""`koord chaos`: try to break koord.

| module | what it has |
| --- | --- |
| `chaos` | the group of commands |
| `stories` | `koord chaos stories` |
| `faults` | `koord chaos faults`, `koord chaos recoveries` |
"""
