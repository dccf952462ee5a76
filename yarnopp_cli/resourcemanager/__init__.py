"""The ResourceManager: its machine, and one folder for each thing it keeps. Pure."""
