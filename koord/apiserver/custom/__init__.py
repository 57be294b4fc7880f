"""Custom resources: what a CustomResourceDefinition may say, what it defines, and how that is served and checked."""
