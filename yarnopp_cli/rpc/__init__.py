"""JSON-RPC 2.0 between the command line and the daemons, one object per line, over Unix sockets and TCP."""
