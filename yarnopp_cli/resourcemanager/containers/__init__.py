"""Containers that the RM has allocated, or that nodes allocated on its behalf. Pure."""
