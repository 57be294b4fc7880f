"""From what strategies and hooks want to what is written: placed, merged, ordered, audited, undone when unwanted."""
