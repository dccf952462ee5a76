"""Guaranteed containers: queues, the scheduler, preemption between queues. Pure."""
