"""The wire: how koord talks to a Kubernetes API server. Knows no policy; imports only `koord.api`.

| module | what it has |
| --- | --- |
| `client` | `Client`: get, list, watch, create, patch, apply, delete and the subresources of any `Kind` |
| `errors` | what can go wrong, typed: NotFound, Conflict, Gone, Unavailable, ... |
| `locate`, `kubeconfig`, `cluster_config` | which cluster, as whom: kubectl's files, variables and rules |
| `auth`, `exec_plugin`, `tls`, `proxy` | credentials and connections that renew themselves |
| `transport`, `retry`, `rate_limit`, `token_bucket` | one call: retries, back-off, fences, limits |
| `watch`, `pages`, `discovery` | the forms of the server's answers |
| `informer`, `informers`, `store` | local copies of kinds, always current, one stream each |
| `work_queue`, `controller` | level-triggered loops over keys |
| `leader`, `election` | leader election on Leases, with fenced writes |
| `events`, `event_ledger` | events about objects, repeats as one series |
| `health`, `metrics`, `authorize`, `serving_tls` | endpoints of a component: /livez, /readyz, /metrics |
| `logs`, `shell`, `clock`, `collector`, `heap` | what every process needs: logs, signals, time, memory |
"""
