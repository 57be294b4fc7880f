"""A cluster in virtual time, decided by the code that decides on a real one.

columns    services and batch pods as arrays: what readers of traces and generators produce
"""
