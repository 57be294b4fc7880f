"""The embedded API server beside the real one: the same requests, and what differs in the answers.

`sequences/` holds the requests as data, `recorded/` the real server's answers to them, made comparable.

    python -m tests.minicluster.apiserver.differential record [NAME...]    write the real server's answers down
    python -m tests.minicluster.apiserver.differential check [NAME...]     compare the embedded server with them
    python -m tests.minicluster.apiserver.differential real [NAME...]      compare the real server with its own record
"""
