"""koord in operation: installed, switched, watched, and what it was worth.

| module | what it has |
| --- | --- |
| `install` | the objects of an installation, its migration and its removal |
| `facts`, `health`, `endpoints` | `koord status`: the state of a cluster, what is wrong and how to fix it |
| `alerts`, `boards` | alerts with their runbooks, and Grafana boards |
| `top`, `bands` | capacity, requests and usage of nodes and pods, by priority band |
| `worth`, `estimate`, `sizing`, `since` | what was lent, used, evicted and saved, and what right-sizing would save |
| `page`, `plots` | a report as a page with plots |
| `live` | reads Prometheus and the API; switches co-location and admission; rolls features out |
"""
