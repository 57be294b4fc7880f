"""koord: co-location for Kubernetes. The map of the packages is in docs/architecture.md."""

__version__ = "0.1.0"
