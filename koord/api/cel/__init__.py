"""CEL, the expression language: read, typed, priced, and run within a budget. Knows nothing of who asks.

| module | its question |
| --- | --- |
| `lexer`, `literals`, `parser`, `macros`, `syntax` | what does an expression say? A tree, or where it cannot be read |
| `types`, `signatures`, `checker`, `literal_checks` | does it fit together? Types for every node, or the faults |
| `declared` | what are its variables? Types and sizes by a schema |
| `sizes`, `estimate`, `estimate_calls` | what can it cost at most? |
| `program`, `calls`, `loops`, `access`, `runtime_cost` | what is it, and what did that cost? |
| `values`, `standard`, `strings`, `formatting`, `lists`, `addresses`, `kubernetes`, `access_checks` | the functions |
| `patterns` | regular expressions: RE2, with Go's error messages |
| `expressions` | all of that for one text |
"""
