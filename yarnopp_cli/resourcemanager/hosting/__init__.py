"""Masters inside the ResourceManager: the machines of jobs, driven without network calls.

``masters`` holds the jobs and drives their machines within the RM's steps; ``calls`` performs the calls of these
machines; ``news`` reports changes to watchers; ``past`` keeps the tasks of ended jobs; ``checking`` refuses invalid
jobs.

Decisions: hosted-masters.
"""
