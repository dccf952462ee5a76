"""What every allocator of containers shares, in the RM and in each node's DistributedScheduler: asks, the load of
nodes, the rules of opportunistic containers. Pure.
"""
