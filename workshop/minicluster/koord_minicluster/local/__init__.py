"""This machine as a node: pods run as plain processes in real cgroups. It is no sandbox."""
