"""The half of the executor that acts: processes, cgroups, files. Decisions are in ``executor.core``, never
here.
"""
