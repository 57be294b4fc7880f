"""Changes to objects: JSON patch, merge patch, strategic merge patch and server-side apply.

Every function here takes decoded JSON and gives new decoded JSON; none changes what it was given, and parts that did
not change are shared between the old and the new object.
"""
