"""The words: everything the protocol names, typed. Pure; imports nothing else of koord.

| module | what it has |
| --- | --- |
| `names` | labels, annotations, resources, feature gates, each once |
| `quantity`, `duration`, `timestamp`, `yaml`, `selector` | Kubernetes' scalars and little languages, exactly |
| `meta`, `pod`, `node`, `core`, `words` | lean Kubernetes objects, and the words that they share |
| `workloads`, `storage`, `policy`, `coordination`, `admissionregistration`, `apiextensions` | more of them |
| `runnable` | pods as their own node sees them |
| `crd` | complete types of koord's own kinds, one module an API group |
| `schema` | those types as CustomResourceDefinitions |
| `kinds` | the list of all kinds: where they live, which type reads them |
| `priority`, `cgroup` | priority bands and QoS classes; where kubelet puts a pod of a QoS |
| `resources` | how much a pod requests and may use, in integers |
| `annotations` | structured annotations, parsed |
| `slo_config`, `scheduler_config`, `descheduler_config`, `components` | configuration: defaults, merging, checks |
| `config_file`, `overlay`, `salvage` | configuration files by their kind; settings over settings; all faults at once |
| `thresholds` | the one threshold model |
| `struct`, `codec`, `faults`, `manifest` | what the others are made with: base type, bytes to objects, errors, files |

A module is imported by its name (`from koord.api.core import Pod`), so that a program pays for what it uses.
"""
