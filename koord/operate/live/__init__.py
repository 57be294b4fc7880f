"""Where reports get their figures: Prometheus."""
