"""The cluster's properties, one dataclass a component, and how they are loaded from files and the command
line."""
