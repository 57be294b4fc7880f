"""The state of a running cluster, as manifests for the offline commands."""
