"""Opportunistic containers: whose turn it is, and who gives places back. Pure."""
