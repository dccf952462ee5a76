"""Application masters as machines: what a job asks of the RM and the NMs, and what it makes of their answers.

One machine (``jobmaster.JobMaster``) drives every job; ``commands`` and ``pi`` plan them
(``records/jobs.py``). It runs in the client or in a container of the cluster, and needs no wire: whoever drives it
performs its commands and feeds it their answers.
"""
