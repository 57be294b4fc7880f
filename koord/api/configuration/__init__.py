"""Configuration: files by kind, plugin arguments, feature gates, flags, `slo-controller-config`, thresholds."""
