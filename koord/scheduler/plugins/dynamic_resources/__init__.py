"""Devices by claim: which devices the claims of pods get (dynamic resource allocation).

| module | its question |
| --- | --- |
| `expressions` | does a CEL expression mean a device? |
| `quantities` | how much of a device's capacity does a request take? |
| `pools` | which devices can one node use? |
| `usage` | what do claims have already? |
| `requests` | what does a claim ask for, with its classes? |
| `constraints`, `search` | which devices satisfy all claims of a pod on one node? |
| `results` | what is written into the status of the claims? |
| `ledger`, `pod_claims` | which claims and devices are there, and which claims has a pod? |
| `judge`, `alternatives`, `changes` | which nodes will do, which are better, and what would help? |
| `conditions`, `steps`, `tidying` | what is written before binding, and when a binding fails? |
| `plugin` | the plugin |

All but the ledger and the plugin are pure functions of one node's devices.
"""
