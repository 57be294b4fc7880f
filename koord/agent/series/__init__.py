"""What was measured lately: fixed-size rings, and what strategies ask of them."""
