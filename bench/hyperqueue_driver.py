"""Drives HyperQueue in HyperQueue's own Python, for ``rivals.py``.

serve DIRECTORY SLOTS TASK...    a server and a worker until stdin ends; a line [number, command] runs a batch
submit SERVER COMMAND...         submit one task to it, and wait for its end
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from hyperqueue import Client, Job


def batch(client, number, command, task):
    """The seconds from before the submission to the start of a last task that depends on all others."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        job = Job()
        before = [job.program(command, stdout=None, stderr=None) for _ in range(number)]
        job.program([*task, f"{folder}/end"], stdout=None, stderr=None, deps=before)
        submitted = client.submit(job)
        if not client.wait_for_jobs([submitted]):
            raise RuntimeError("a task failed")
        ended = int(Path(f"{folder}/end").read_text()) / 1e9
        client.forget(submitted)
    return ended - begun


def serve(folder, slots, *task):
    """Answer each line of stdin with one on stdout."""
    from hyperqueue.cluster import LocalCluster, WorkerConfig

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the library's own output is not an answer
    with LocalCluster(folder, WorkerConfig(cores=int(slots))) as cluster:
        client = Client(cluster.cluster.server_dir)
        print(json.dumps(str(cluster.cluster.server_dir)), file=answers)
        for line in sys.stdin:
            number, command = json.loads(line)
            print(json.dumps(batch(client, number, command, task)), file=answers)


def submit(server, *command):
    """Run one task, from the start of this client to the task's end."""
    client = Client(server)
    job = Job()
    job.program(list(command), stdout=None, stderr=None)
    client.wait_for_jobs([client.submit(job)])


if __name__ == "__main__":
    {"serve": serve, "submit": submit}[sys.argv[1]](*sys.argv[2:])
