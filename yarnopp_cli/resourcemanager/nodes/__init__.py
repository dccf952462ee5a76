"""Nodes as the RM keeps them. Pure."""
