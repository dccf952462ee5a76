"""Which container goes where, and who gives way: guaranteed ones by queues (``CapacityScheduler``), opportunistic ones
by users' shares. Decides; granting and ending are the ResourceManager's. Pure.
"""
