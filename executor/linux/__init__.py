"""The half of the executor that acts: processes, cgroups, files. It decides nothing; ``executor.core`` does."""
