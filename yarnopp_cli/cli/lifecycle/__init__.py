"""Commands that start, stop, check and configure a cluster."""
