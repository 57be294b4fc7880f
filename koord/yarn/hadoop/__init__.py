"""Hadoop's words: protobuf by field numbers, RPC frames, messages of YARN's protocols, configuration files. Pure."""
