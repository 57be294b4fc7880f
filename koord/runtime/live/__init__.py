"""The proxy and the plugin as processes."""
