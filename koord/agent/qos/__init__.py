"""Strategies: what is done on this node, each second, so that services do not notice the rest."""
