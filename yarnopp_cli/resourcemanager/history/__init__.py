"""What happened in the cluster, and what is kept of ended applications. Pure."""
