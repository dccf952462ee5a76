"""The environment of a container: YARN's variables, those its creator asked for, and a few of our own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records import ContainerSpec

INHERITED = ("PATH", "LANG", "TZ", "JAVA_HOME")
"""Inherited from the executor's own environment unless the container sets them (YARN's ``env-whitelist``)."""

INHERITED_PREFIX = "HADOOP_"

ACCOUNT = ("HOME", "USER", "LOGNAME")
"""The variables for the user, which YARN sets; a container that has its creator's whole environment may keep
its own."""

HIDDEN = "-1"
"""The GPU index that selects no GPU, for a container that has none."""

OWNED = ("CONTAINER_ID", "LOCAL_DIRS", "LOG_DIRS", "NM_HOST", "NM_PORT", "NM_HTTP_PORT", "PWD")
"""The variables that the executor and the node set, whatever a container sets."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def container_environment(
    spec: ContainerSpec,
    *,
    node_environment: Mapping[str, str],
    inherited: Mapping[str, str],
    private_directory: str,
    working_directory: str,
    log_directory: str,
    user: str,
    home: str,
    device_vendor: str = "",
) -> dict[str, str]:
    """The exact environment of the container's process (``ContainerLaunch.sanitizeEnv``).

    From weakest to strongest: the whitelist from ``inherited``; ``spec.environment``; ``node_environment`` (NM_HOST,
    NM_PORT, NM_HTTP_PORT) and the variables that YARN forces. With ``spec.own_account`` a container keeps its own
    ``ACCOUNT``. ``device_vendor`` is that of the node's GPUs, "" where the node does not assign GPUs one by one.
    """
    environment = whitelisted(inherited)
    environment.setdefault("PATH", DEFAULT_PATH)
    environment.update(spec.environment)
    environment.update(node_environment)
    if device_vendor:
        environment.update(device_variables(spec.devices, device_vendor))
    environment.update(
        CONTAINER_ID=spec.container_id,
        LOCAL_DIRS=private_directory,
        LOG_DIRS=log_directory,
        USER=spec.user or user,
        LOGNAME=spec.user or user,
        HOME=home,
        PWD=working_directory,
    )
    if spec.own_account:
        environment.update({name: spec.environment[name] for name in ACCOUNT if name in spec.environment})
    return environment


def device_variables(devices: Sequence[str], vendor: str) -> dict[str, str]:
    """The variables that tell the libraries of ``vendor`` which GPUs (``index:minor``) a container has, or
    that it has none."""
    indices = [device.partition(":")[0] for device in devices]
    visible = ",".join(indices) or HIDDEN
    if vendor == "amd":  # HIP numbers the devices that ROCR shows
        among = ",".join(map(str, range(len(indices)))) or HIDDEN
        return {"ROCR_VISIBLE_DEVICES": visible, "HIP_VISIBLE_DEVICES": among}
    return {"CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": ",".join(indices) or "void"}


def whitelisted(inherited: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that containers inherit."""
    return {
        name: value
        for name, value in inherited.items()
        if name in INHERITED or name.startswith(INHERITED_PREFIX)
    }
