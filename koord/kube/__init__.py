"""The wire: how koord talks to a Kubernetes API server. Knows no policy; imports only `koord.api`.

| module | what it has |
| --- | --- |
| `client` | `Client`: get, list, watch, create, patch, apply, delete and the subresources of any `Kind` |
| `errors` | what can go wrong, typed: NotFound, Conflict, Gone, Unavailable, ... |
| `locate`, `kubeconfig`, `cluster_config` | which cluster, as whom: kubectl's files, variables and rules |
| `auth`, `account_token`, `exec_plugin`, `tls`, `proxy`, `lean` | credentials and connections that renew themselves |
| `transport`, `retry`, `rate_limit`, `token_bucket` | one call: retries, back-off, fences, limits |
| `watch`, `pages`, `streamed_list`, `discovery`, `served` | the forms of the server's answers |
| `informer`, `informers`, `store` | local copies of kinds, always current, one stream each |
| `work_queue`, `controller` | level-triggered loops over keys |
| `leader`, `election`, `announced` | leader election on Leases, with fenced writes; which schedulers run |
| `events`, `event_ledger`, `malformed` | events about objects, repeats as one series; malformed objects |
| `eviction_notice` | notice to a pod before its eviction |
| `health`, `metrics`, `authorize`, `callers`, `settings_paths` | endpoints of a component: /livez, /readyz, /metrics |
| `listening`, `serving_tls`, `unix_sockets`, `certificates` | ports, sockets and certificates |
| `logs`, `shell`, `clock`, `collector`, `heap`, `reload` | what every process needs: logs, signals, time, memory |
| `background_task` | a background task with an owner |
| `program`, `tether` | starting this program again as a child, and the child's line to its supervisor |
"""
