"""What the scheduler knows. `cluster` is the door; `table`, `labels`, `counts` and `pods` are its parts."""
