"""A Kubernetes cluster on one machine, for `koord up`, tests and benchmarks. The product does not need it.

| package | what it has |
| --- | --- |
| `apiserver` | a Kubernetes API: storage, watch, patches, CRDs, admission, RBAC |
| `controllers` | what users of an API take for granted: Deployments, Jobs, garbage collection, ... |
| `kubelet` | what every kubelet does, shared by the two kinds of nodes: its port, what of a pod it tells |
| `hollow` | nodes that are only modelled: they register, run pods through their phases, report usage |
| `local` | this machine as a node: pods as plain processes in real cgroups |
| `up` | starts and supervises all of it, each as a child process |
| `demo` | the story of `koord up --demo` |
| `cli` | the commands: `koord up`, `apiserver`, `controllers`, `hollow`, `local` |

They meet in the API alone: each can be replaced by Kubernetes' own.
"""
