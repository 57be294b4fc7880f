"""The demo's shells: `telling` applies the story to a cluster, `watching` takes down what becomes of it."""
