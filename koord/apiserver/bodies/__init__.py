"""What clients send: JSON, YAML or protobuf, objects or patches; read as the real server reads it."""
