"""Authentication, impersonation, RBAC authorization, and the review APIs that report their results."""
