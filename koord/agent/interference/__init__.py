"""Interference: which pod suffers, which neighbour causes it, what is done about it, and whether it helped."""
