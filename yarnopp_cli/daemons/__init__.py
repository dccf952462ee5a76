"""The daemons: each connects one machine (``resourcemanager/``, ``nodemanager/``) to a Driver, a server and
this host, and makes no decisions itself.

``process.py`` has what they share: arguments, lock, log, signals, readiness.
"""
