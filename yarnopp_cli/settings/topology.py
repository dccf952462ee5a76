"""What differs from node to node although all nodes of a host share one configuration: racks and labels.

Text like ``gpu`` for all nodes, or ``45454=gpu, 45456=fast``: the port of a node, which its name ends in, and
its own value; an entry without a port is for the others.
"""

from __future__ import annotations


def parse(text: str) -> dict[int | None, str]:
    """Port -> value; None for all others. Raises ValueError that says which entry is wrong."""
    values: dict[int | None, str] = {}
    for entry in text.replace(",", " ").split():
        port, equals, value = entry.rpartition("=")
        if equals and not (port.isascii() and port.isdigit()):
            raise ValueError(f"{entry!r} does not begin with the port of a node")
        key = int(port) if equals else None
        if key in values:
            raise ValueError(f"{entry!r} is the second for the same node")
        values[key] = value
    return values


def of_node(text: str, port: int) -> str:
    """The value of the node with that port, "" for none."""
    values = parse(text)
    return values.get(port, values.get(None, ""))
