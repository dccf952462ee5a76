"""The AMRMProxy of a node: interceptors and the DistributedScheduler. Pure.

Decisions: one-allocator.
"""
