"""Masters that live in the ResourceManager: the machines of jobs, driven without a wire.

``masters`` holds the jobs and drives their machines within the RM's steps; ``news`` holds unreported changes for
their watchers.

Decisions: hosted-masters.
"""
