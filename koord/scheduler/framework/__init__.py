"""How decisions are made. `plugin` says what a plugin is, `pod_class` keeps verdicts, `engine` decides."""
