"""The protocol's custom resources: one module a kind, every field of it.

These structs are complete, unlike the lean ones for Kubernetes' own objects: the schemas that the API server enforces
are made from them, and a schema that lacks a field drops it from users' objects. `definitions` turns them into
CustomResourceDefinitions.
"""
