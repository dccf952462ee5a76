"""What clients, masters, nodes and administrators may ask of the RM: one module a protocol or subject. Pure."""
