"""A Kubernetes API in one process, which kubectl and other clients use like a cluster.

A request arrives at `http`, is authenticated and authorised (`access`), and is dispatched by verb (`verbs`) to the
objects (`objects`). Writes pass admission (`admission`) on the way to the store. The response has the form that the
client requested. The code for one kind is in its `Strategy` (`resource`); everything else is shared by all kinds.
Objects are plain dicts in memory and bytes in the store. Messages match the real server's word for word.

| module | contents |
| --- | --- |
| `server` | `ApiServer`, which combines all modules |
| `listening`, `wire/`, `http`, `in_flight` | the socket; HTTP; a request; limits on concurrent requests |
| `large_objects` | a thread for work on large objects |
| `paths`, `telemetry` | endpoints that are not objects: health, version, metrics |
| `request_info`, `routing`, `negotiation` | what a request asks for, whether it exists, and the form of the response |
| `list_options`, `write_options`, `selectors` | options of a request, validated |
| `verbs`, `listing`, `watching`, `tables`, `printing` | get, list, watch, create, ... and the forms of responses |
| `subresources/` | binding, eviction, scale, finalize, log |
| `objects`, `metadata`, `deletion`, `stored` | the lifecycle of an object; its metadata; its stored bytes |
| `store`, `collection`, `events`, `worker`, `revision_log` | objects and watchers in memory, revisions in SQLite |
| `resource`, `registry`, `status` | served resources; error responses |
| `structural` | pruning and defaulting by an object's schema |
| `bodies/` | request bodies: JSON, YAML, protobuf, patches |
| `patch/` | JSON, merge and strategic patches, server-side apply, managedFields |
| `builtin/`, `remembering` | the built-in kinds: defaults, validation, columns; formats of values |
| `custom/`, `rules/` | CustomResourceDefinitions and the kinds they define; CEL in rules and match conditions |
| `access/`, `certs` | authentication, RBAC, reviews, tokens; keys and certificates |
| `admission/` | webhooks, namespaces, priorities, limits, quotas, and other checks of a write |
| `discovery`, `openapi`, `descriptions` | discovery of the served resources |
| `computed`, `metrics_api`, `component_statuses` | values computed per request: `kubectl top`, health |
"""
