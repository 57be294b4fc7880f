"""What clients send: JSON, YAML or protobuf, objects or patches; read as the real server reads it.

| module | its question |
| --- | --- |
| `decoding` | which object is this body, and is it of the kind that was asked for? |
| `typed` | does a built-in object have the types that Go would read it into? |
| `canonical` | is it already what would be kept of it, so that nothing need be done? |
| `patched` | which patch is this body, and is what it makes an object still? |
| `emptiness` | how does a refusal print an empty map or list? |
| `json_text`, `protobuf` | which data are these bytes? |
"""
