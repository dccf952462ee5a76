"""``yopp pi`` on a YARN cluster: Hadoop's example by Hadoop's own client, whose output and exit code these are."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence

from ...client.choice import ENGINE_VARIABLE, LOCAL, RM_VARIABLE
from ...errors import EXIT_NOT_FOUND, UsageError, YoppError
from ...masters.pi import PERCENT
from ..frame.output import Printer
from ..frame.session import Session

EXAMPLES = "share/hadoop/mapreduce/hadoop-mapreduce-examples-*.jar"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def pi(session: Session, maps: int, samples: int, percent: int | None, *, dry_run: bool) -> int:
    """Run Hadoop's example; its exit code."""
    printer = session.printer
    if printer.is_json:
        raise UsageError(
            "pi on YARN has no --json",
            because="what it prints is Hadoop's own output",
            hint="leave --json away",
        )
    words = pi_words(session.context.define, maps, samples, percent)
    hadoop = shutil.which("hadoop")
    jar = examples_jar(hadoop, os.environ) if hadoop else ""
    line = shlex.join(["hadoop", "jar", jar or f"$HADOOP_HOME/{EXAMPLES}", *words])
    if not jar:
        line = line.replace("'", "")
    if dry_run:
        printer.text(line)
        return 0
    if not hadoop or not jar:
        raise YoppError(
            "cannot run pi on YARN from here",
            because="there is no `hadoop` on PATH"
            if not hadoop
            else "the jar of Hadoop's examples is not beside it",
            hint=f"where Hadoop is installed: {line}",
            exit_code=EXIT_NOT_FOUND,
        )
    printer.note(line)
    environment = {name: value for name, value in os.environ.items() if name != RM_VARIABLE}
    environment[ENGINE_VARIABLE] = LOCAL  # a `hadoop` that leads back to yopp must not come back here
    return _in_a_directory_of_its_own(
        [os.path.abspath(hadoop), "jar", os.path.abspath(jar), *words], environment, printer
    )


def _in_a_directory_of_its_own(command: list[str], environment: dict[str, str], printer: Printer) -> int:
    """Run Hadoop's client; its exit code.

    Where the default file system is local, it makes QuasiMonteCarlo_* in its working directory, and leaves that there
    when it is interrupted. So it works in a directory below this one, which goes with all that it left.
    """
    place: str | None = None
    with contextlib.suppress(OSError):  # where nothing can be made, nothing can be left
        made = f"{os.getcwd()}/.yopp-pi-{os.getpid()}-{os.urandom(4).hex()}"
        os.mkdir(made)
        place = made
    left: list[str] = []
    try:
        process = subprocess.Popen(command, env=environment, cwd=place)
        # Ctrl-C reaches the client by itself; either way it ends in its own time
        kept = {
            number: signal.signal(number, lambda got, _: process.send_signal(got)) for number in _PASSED_ON
        }
        kept[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
        code = process.wait()
        for number, handler in kept.items():
            signal.signal(number, handler)
    finally:
        if place is not None:
            left = os.listdir(place)
            shutil.rmtree(place, ignore_errors=True)
    if left:
        printer.note(
            f"removed what Hadoop's client left: {', '.join(left)}; `yopp app list` shows whether its job runs"
        )
    return code if code >= 0 else 128 - code


def pi_words(defines: Sequence[str], maps: int, samples: int, percent: int | None) -> list[str]:
    """What follows the jar: ``pi``, the properties that are not yopp's own, and the two numbers."""
    kept = [one for one in defines if not one.startswith("yopp.")]
    if percent is not None:
        kept.append(f"{PERCENT}={percent}")
    return ["pi", *(f"-D{one}" for one in kept), str(maps), str(samples)]


def examples_jar(hadoop: str, environ: dict[str, str] | os._Environ[str]) -> str:
    """The jar of Hadoop's examples beside a ``hadoop``, "" where it is not found."""
    homes = [environ.get(name, "") for name in ("HADOOP_MAPRED_HOME", "HADOOP_HOME")]
    homes.append(os.path.dirname(os.path.dirname(os.path.realpath(hadoop))))
    for home in filter(None, homes):
        if found := sorted(glob.glob(os.path.join(glob.escape(home), EXAMPLES))):
            return found[-1]
    return ""
