"""Common parts of the allocators in the RM and in each node's DistributedScheduler: requests, the load of
nodes, the rules for opportunistic containers. Pure.
"""
