"""From what strategies want to what is written: merged, ordered, audited, and undone when nobody wants it any more."""
