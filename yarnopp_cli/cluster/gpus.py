"""The GPUs of this machine, and which of them each node of a cluster has (``GpuDiscoverer``).

GPUs are known individually if ``yarn.nodemanager.resource-plugins.gpu.allowed-gpu-devices`` lists them, or is
``auto``: then ``nvidia-smi`` finds them. A NodeManager claims each GPU that it assigns to containers by the
name of a socket, so that no other cluster on this machine assigns the same GPU.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from executor.core.devices import shared
from executor.hints import TYPE_CHECKING
from executor.light import replace

from ..errors import EXIT_CONFIGURATION, YoppError
from ..settings.resource_types import ALLOWED_GPUS, AUTO, DISCOVERY, gpu_devices

if TYPE_CHECKING:
    import socket

    from ..machine.life import PlannedNode
    from ..settings.loading import Configuration

_DIRECTORIES = ("/usr/bin", "/bin", "/usr/local/nvidia/bin")
"""Where YARN looks for nvidia-smi, after the property and the PATH."""
_PATIENCE = 20.0


def gpus_of_machine(configuration: Configuration) -> tuple[str, ...]:
    """The GPUs that containers may use, as ``index:minor``; none if GPUs are not known individually.

    Raises YoppError if they cannot be detected.
    """
    allowed = str(configuration.value(ALLOWED_GPUS))
    if allowed != AUTO:
        return gpu_devices(allowed)
    path = _nvidia_smi(str(configuration.value(DISCOVERY)))
    if path is None:
        raise _undetected("nvidia-smi is not installed")
    import subprocess

    try:
        answer = subprocess.run([path, "-q", "-x"], capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _undetected(f"{path} cannot be run: {error}") from None
    if answer.returncode != 0:
        said = (
            answer.stderr.decode(errors="replace").strip() or answer.stdout.decode(errors="replace").strip()
        )
        raise _undetected(f"{path} ended with {answer.returncode}: {said[:200]}")
    try:
        return discovered(answer.stdout.decode(errors="replace"))
    except ValueError as error:
        raise _undetected(f"{path}: {error}") from None


def discovered(text: str) -> tuple[str, ...]:
    """The GPUs in the output of ``nvidia-smi -q -x``: their positions and minor numbers. Raises
    ValueError."""
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it did not print XML ({error})") from None
    minors = [(one.findtext("minor_number") or "").strip() for one in root.iter("gpu")]
    if not all(minor.isascii() and minor.isdigit() for minor in minors):
        raise ValueError("a GPU has no minor number")
    return tuple(f"{index}:{minor}" for index, minor in enumerate(minors))


def _nvidia_smi(named: str) -> str | None:
    """The path of nvidia-smi, None if it is not found; ``named`` is its path or its directory."""
    places = (named, os.path.join(named, "nvidia-smi")) if named else ()
    found = [*os.environ.get("PATH", "").split(os.pathsep), *_DIRECTORIES]
    candidates = places or tuple(os.path.join(one, "nvidia-smi") for one in found if one)
    return next((one for one in candidates if os.path.isfile(one) and os.access(one, os.X_OK)), None)


def _undetected(because: str) -> YoppError:
    return YoppError(
        "cannot detect the GPUs of this machine",
        because=because,
        hint=f"list them: -D{ALLOWED_GPUS}=0:0,1:1 (index:minor); or use none: -D{ALLOWED_GPUS}=",
        exit_code=EXIT_CONFIGURATION,
    )


def with_gpus(
    configuration: Configuration, nodes: Sequence[PlannedNode], others: Sequence[PlannedNode] = ()
) -> tuple[PlannedNode, ...]:
    """These nodes, each with its share of the GPUs that ``others`` do not have. Raises YoppError as
    ``gpus_of_machine``."""
    if not configuration.value(ALLOWED_GPUS):
        return tuple(nodes)
    taken = {device for node in others for device in node.gpus}
    free = [device for device in gpus_of_machine(configuration) if device not in taken]
    parts = shared(free, len(nodes))
    return tuple(replace(node, gpus=part) for node, part in zip(nodes, parts, strict=True))


class Claims:
    """The GPUs that this process has claimed, until it ends, so that NodeManagers of other clusters do
    not use them."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self, devices: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Claim these GPUs. Returns those that were free, and those that another NodeManager of this
        machine holds.

        The names are in the kernel's abstract socket namespace, of which each network namespace has its own.
        They vanish with the process.
        """
        import socket  # only in a NodeManager with GPUs: clients start faster without it

        mine, held = [], []
        for device in devices:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                one.bind(f"\0yopp-gpu-{device.partition(':')[2]}")
            except OSError:
                one.close()
                held.append(device)
            else:
                self._sockets.append(one)
                mine.append(device)
        return tuple(mine), tuple(held)

    def release(self) -> None:
        """Release all claims."""
        for one in self._sockets:
            one.close()
        self._sockets.clear()
