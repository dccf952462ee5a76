"""Application masters as machines: the calls of a job to the RM and the NMs, and its reactions to their answers.

One machine (``jobmaster.JobMaster``) drives every job; ``commands`` and ``pi`` plan them (``records/jobs.py``). It
runs in the RM, in the client or in a container of the cluster, and uses no network itself: its driver performs its
commands and passes it the answers.
"""
