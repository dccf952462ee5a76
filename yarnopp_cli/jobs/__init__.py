"""Follows jobs whose masters the ResourceManager hosts, or runs masters in a client or in a container."""
