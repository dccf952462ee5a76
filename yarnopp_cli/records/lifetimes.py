"""How long a cluster runs."""

STAY = "stay"
"""Until `yopp down`."""
ON_DEMAND = "on-demand"
"""Until its last job has ended: a job has started it for itself."""
