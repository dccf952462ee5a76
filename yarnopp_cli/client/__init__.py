"""What commands ask of a cluster: this host's own, or a YARN cluster through its REST API."""
