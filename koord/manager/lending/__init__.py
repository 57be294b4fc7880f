"""How much of a node is lent. Every function here is pure: the node's state, its settings and the time in, figures out.

policies     the list of ways to compute batch resources: `usage`, `request`, `max_usage_request`, `adaptive`,
             and in `peers` those of other systems
policy       what a policy is; a new one is a file with its `POLICY`, a line in `policies`, and its name in
             `koord.api.configuration.lending_policies`, where the configuration is checked
batch        batch resources of a node, by the policy that its settings choose
zones        the same for each NUMA zone
zone_shares  the share of a zone in what a policy lends that knows no zones
pool         what other systems hold of the batch resources, and what is left for Kubernetes
other_names  the pool under the names of other systems
mid          mid resources
counting     the total of what pods take
system       what is used outside of pods
freshness    whether a report is recent enough to lend by it
"""
