"""Objects of Kubernetes, with the fields that koord reads, and what follows from them."""
