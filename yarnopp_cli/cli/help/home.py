"""The output of a bare ``yopp``: a short status of the cluster, and the five most important commands."""

from __future__ import annotations

from ...errors import ConnectionFailedError, YoppError
from ...views.text import megabytes, number_of, vcores
from ..frame.output import Printer
from ..frame.session import Context
from ..lifecycle.status import load_text

_KNOW = """
  yopp up                          start a cluster that stays
  yopp run -n 10 -O sleep 10       run a command in ten opportunistic containers
  yopp ps                          running and queued containers
  yopp logs -f last                follow the output of the last job
  yopp --help                      everything else"""


def home() -> int:
    """Print the short status and the commands to know; 0 whether a cluster runs or not."""
    printer = Printer.of()
    printer.text(_status() + "\n" + _KNOW)
    return 0


def _status() -> str:
    try:
        with Context.of().client() as client:
            info = client.cluster_info()
    except ConnectionFailedError:
        if Context.of().run_dir.daemons():
            return (
                "yopp: part of a cluster is running here, but no ResourceManager answers: see `yopp status`."
            )
        return "yopp: no cluster is running here (a job starts one for itself)."
    except YoppError as problem:
        return f"yopp: {problem.message}."
    return (
        f"yopp: {number_of(info.nodes_running, 'node')}, {vcores(info.total.vcores)}, {megabytes(info.total.memory)}; "
        f"{load_text(info)}."
    )
