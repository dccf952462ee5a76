"""A NodeManager: its machine, its link to the RM, its reports, and its service to masters. Pure."""
