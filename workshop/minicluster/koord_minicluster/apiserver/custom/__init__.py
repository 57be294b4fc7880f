"""Custom resources: what a CustomResourceDefinition may say, what it defines, and how that is served and checked.

| module | its question |
| --- | --- |
| `kinds` | which resources does a definition define, under which names? |
| `serving` | when are they served? Follows definitions as they come, change and go |
| `definition_checks`, `schema_checks` | what is wrong with a definition, with its schemas? |
| `printed` | how does Go print parts of a definition, in those refusals? |
| `schema_validation` | does an object fit its schema, and its strings their `format`? |
| `json_path` | the paths of printer columns, scale and selectable fields |
"""
