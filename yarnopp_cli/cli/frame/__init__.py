"""The frame of all commands: options, output, the meaning of ids, and the choice of the cluster."""
