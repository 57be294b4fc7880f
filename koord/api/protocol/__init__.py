"""Koordinator's protocol: names, kinds (`crd`), structured annotations, priority bands and QoS classes."""
