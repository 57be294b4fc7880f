"""HTTP/1.1 as far as an API server needs it: heads read strictly, bodies when asked for, answers in one write.

| module | what it has |
| --- | --- |
| `head` | the head of a request, and where its body ends; pure |
| `connection` | `Connection`: one client's requests, one after the other |
| `answers` | `Response` with a body that is there, `Stream` of pieces that come |

A general server costs some 50 us of CPU a request in objects that nobody here looks at, a third of a GET.
"""
