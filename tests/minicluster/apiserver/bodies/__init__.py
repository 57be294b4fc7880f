"""Bodies of requests, good and bad, and what a real server says to them."""
