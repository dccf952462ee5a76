"""Watches the host and the containers of a node while they run, and reports to the core."""
