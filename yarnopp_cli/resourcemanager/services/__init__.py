"""The calls of clients, masters, nodes and administrators: one module for each protocol or subject. Pure."""
