"""Application masters as machines: what a job asks of the RM and the NMs, and what it makes of their answers.

One engine (``engine.JobMaster``) drives every job; ``run``, ``distributedshell`` and ``pi`` plan one each
(``records/jobs.py``). The same machines run in the client, in a container of the cluster, and in the
simulator.
"""
