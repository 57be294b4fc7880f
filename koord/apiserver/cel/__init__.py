"""CEL: the expressions in the rules of custom resources and in the match conditions of webhooks.

| module | its question |
| --- | --- |
| `lexer`, `parser`, `macros`, `syntax` | what does an expression say? A tree, or where it cannot be read |
| `types`, `signatures`, `checker`, `literal_checks` | does it fit together? Types for every node, or the faults |
| `declared`, `conditions` | what are its variables? Types and sizes by a schema; the request of a webhook |
| `sizes`, `estimate`, `estimate_calls` | what can it cost at most? |
| `program`, `calls`, `loops`, `access`, `runtime_cost` | what is it, and what did that cost? |
| `values`, `standard`, `strings`, `formatting`, `lists`, `addresses`, `kubernetes`, `patterns` | the functions |
| `expressions` | all of that for one text |
| `rules`, `rule_checks`, `field_paths` | rules of custom resources: applied to objects, judged when they are defined |
"""
