"""One node: what it uses, who may use it, and what is written to its kernel so that services do not notice the rest."""
