"""yopp's cluster: ResourceManager, NodeManagers, application masters, their wire, and the command line.

It stands on the package ``executor``, which runs containers on one node and knows nothing of clusters.
"""

__version__ = "0.1.0"
