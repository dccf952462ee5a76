"""The daemons: each wires one machine of ``core`` to a Driver, a server and this host, and decides nothing
itself.

``process.py`` is what they have in common: arguments, lock, log, signals, readiness.
"""
