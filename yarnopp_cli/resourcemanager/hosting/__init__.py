"""Masters that live in the ResourceManager: the machines of jobs, driven without a wire.

``masters`` holds the jobs and drives their machines within the RM's steps; ``calls`` makes the calls of these machines;
``news`` tells watchers what has changed; ``past`` has the tasks of ended jobs; ``checking`` refuses jobs.

Decisions: hosted-masters.
"""
