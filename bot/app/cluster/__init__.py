"""Several processes on one database: roles, leases, and access to the leader's queue.

A role is a duty that one process holds at a time. The leader is the process with the role `queue`.
"""
