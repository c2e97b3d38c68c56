"""Several processes on one database: posts, leases, and access to the leader's queue.

A post is a role that one process holds at a time. The leader is the process with the post `queue`.
"""
