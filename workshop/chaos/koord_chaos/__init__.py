"""What koord promises, and what tries to break it, for `koord chaos`. The product does not need it.

| package | what it has |
| --- | --- |
| `invariants` | what must be true, judged by API objects, cgroup files and process tables alone |
| `stories` | seeded load that mixes all features, in memory and on an API server |
| `halving` | the parts of a failing list that matter |
| `faults` | faults at random while load runs, and how long recovery takes |
| `cli` | the commands of `koord chaos` |
"""
