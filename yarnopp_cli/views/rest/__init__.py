"""Documents for programs: YARN's REST forms, metrics, XML. Pure."""
