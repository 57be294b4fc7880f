"""Text formats: scalars and small languages of Kubernetes and Linux, read and written exactly."""
