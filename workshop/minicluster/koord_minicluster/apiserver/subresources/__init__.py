"""Subresources with a behaviour of their own: each is a change of an object with rules around it.

Status is not among them: it is an ordinary update that keeps only the status. Nor are subresources that update one part
of an object (`pods/resize`): those are in the strategies of their kinds. `serviceaccounts/token` is in `access`.
"""
