"""Tests of what tries to break koord."""
