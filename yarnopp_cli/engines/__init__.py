"""Where the commands work: on this host (``local``), or on a real YARN cluster through its REST API (``yarn``)."""
