"""What CEL expressions are used for: rules of custom resources, and match conditions of webhooks.

| module | its question |
| --- | --- |
| `validation`, `cel_values`, `correlation` | rules of custom resources, applied to objects and to changes |
| `rule_checks`, `field_paths` | what is wrong with rules when they are defined |
| `conditions` | match conditions of webhooks: over the request, the object and what it was |
"""
