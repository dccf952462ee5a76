"""Placement and preemption: guaranteed containers by queues (``CapacityScheduler``), opportunistic ones by users'
shares. It only decides; the ResourceManager grants and ends. Pure.
"""
