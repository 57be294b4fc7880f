"""What a new pod, node, reservation or configuration may look like, and what is filled in. Pure.

| module | what it has |
| --- | --- |
| `request` | what is asked (an object about to be stored) and what is answered |
| `known` | what rules may look up: namespaces, profiles, priority classes, nodes, configuration |
| `rules` | all rules, in the order in which they run; each is one file |
| `review` | the questions themselves: `mutate`, `validate`, and `admit` for both |
| `hooks` | how an API server is told about them: paths, what they are for, what happens when nobody answers |
"""
