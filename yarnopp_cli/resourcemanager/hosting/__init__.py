"""Masters that live in the ResourceManager: the machines of jobs, driven without a wire.

``masters`` holds the jobs and drives their machines within the RM's steps, ``news`` what their watchers have not heard.

Decisions: hosted-masters.
"""
