"""Everything in the cluster that decides. Pure: no clock, file, socket, process, environment or global random.

Each module holds machines as ``executor/core/machine.py`` defines them. The daemons run them on one event loop each,
the tests call them with literal times, the simulator runs thousands of them in virtual time.
"""
