"""The commands' requests to a cluster: this host's own, or a YARN cluster through its REST API."""
