"""Subresources with a behaviour of their own: each is a change of an object with rules around it.

Status is not among them: it is a change like any other, of which only the status is kept. Nor are the windows on a part
of an object (`pods/resize`): those are in the strategies of their kinds. `serviceaccounts/token` is in `access`.
"""
