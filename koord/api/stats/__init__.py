"""Small statistics that several stations share. The standard library is all that they need."""
