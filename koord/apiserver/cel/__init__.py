"""CEL: the expressions in the rules of custom resources and in the match conditions of webhooks.

| module | its question |
| --- | --- |
| `lexer`, `literals`, `parser`, `macros`, `syntax` | what does an expression say? A tree, or where it cannot be read |
| `types`, `signatures`, `checker`, `literal_checks` | does it fit together? Types for every node, or the faults |
| `declared`, `conditions` | what are its variables? Types and sizes by a schema; the request of a webhook |
| `sizes`, `estimate`, `estimate_calls` | what can it cost at most? |
| `program`, `calls`, `loops`, `access`, `runtime_cost` | what is it, and what did that cost? |
| `values`, `standard`, `strings`, `formatting`, `lists`, `addresses`, `kubernetes`, `access_checks` | the functions |
| `pattern_syntax`, `patterns` | regular expressions, matched in linear time |
| `expressions` | all of that for one text |
| `rules`, `seen`, `correlation` | rules of custom resources, applied to objects and to changes |
| `rule_checks`, `field_paths` | what is wrong with rules when they are defined |
"""
