"""The part of the executor that acts on processes, cgroups and files. ``executor.core`` makes the decisions."""
