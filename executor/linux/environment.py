"""The environment of a container: YARN's variables, those its creator asked for, and a few of our own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records import ContainerSpec
from .launcher import DEFAULT_PATH

INHERITED = ("PATH", "LANG", "TZ", "JAVA_HOME")
"""Inherited from the executor's own environment unless the container sets them (YARN's ``env-whitelist``)."""

INHERITED_PREFIX = "HADOOP_"

HIDDEN = "-1"
"""The GPU index that selects no GPU, for a container that has none."""

OWNED = ("CONTAINER_ID", "LOCAL_DIRS", "LOG_DIRS", "NM_HOST", "NM_PORT", "NM_HTTP_PORT", "PWD")
"""The variables that the executor and the node set, whatever a container sets."""


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
    account: bool = False,
    device_vendor: str = "",
) -> dict[str, str]:
    """The exact environment of the container's process (``ContainerLaunch.sanitizeEnv``).

    From weakest to strongest: the whitelist from ``inherited``; ``spec.environment``; ``node_environment`` (NM_HOST,
    NM_PORT, NM_HTTP_PORT) and the variables that YARN forces. ``spec.own_account``: ``spec.environment`` is the whole
    environment of the container's creator, to which the node adds only what it says about the container.
    ``account``: the container runs as another user than its creator, whose PATH, if it has none, and HOME, USER and
    LOGNAME are set in any case. ``device_vendor`` is that of the node's GPUs, "" where the node does not assign GPUs
    one by one.
    """
    environment = {} if spec.own_account else whitelisted(inherited)
    environment.update(spec.environment)
    if account or not spec.own_account:
        environment.setdefault("PATH", DEFAULT_PATH)
        environment.update(USER=spec.user or user, LOGNAME=spec.user or user, HOME=home)
    environment.update(node_environment)
    if device_vendor:
        environment.update(device_variables(spec.devices, device_vendor))
    environment.update(
        CONTAINER_ID=spec.container_id,
        LOCAL_DIRS=private_directory,
        LOG_DIRS=log_directory,
        PWD=working_directory,
    )
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
