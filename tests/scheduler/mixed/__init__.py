"""Everything that the scheduler has at once, with a checker that reads nothing but API objects."""
