"""koord on a cluster: the objects of an installation, what has to change for them, and how they are removed.

| module | what it has |
| --- | --- |
| `settings` | what a person may choose |
| `objects`, `cluster_objects`, `workloads`, `node_agent` | the objects, as a pure function of the settings |
| `extras`, `monitoring`, `yarn`, `console` | further parts: `koord install --with NAME` |
| `rights`, `access` | what each component may do, and why; the roles that follow |
| `plan`, `difference`, `manifest`, `kinds` | what has to be created, patched or refused |
| `kind_change` | what objects would lose by another definition of their kind |
| `migration`, `others` | steps between Koordinator and koord; other systems on the cluster |
| `record`, `removal`, `traces` | what was installed, in which order it is removed, what it wrote on other objects |
| `readiness`, `versions` | whether a cluster is ready, feature by feature; supported versions |
| `chart`, `template` | the same objects as a Helm chart |
| `live` | reads the cluster and carries plans out |
"""
