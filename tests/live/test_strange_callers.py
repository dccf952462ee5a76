"""Callers from another host, whom only their tokens identify, attack a node's AMRMProxy: they say nothing, send half a
call, read no answer, or come in crowds. The daemon is real, and so is the network: two namespaces and a pair of veth.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from yarnopp_cli.records.container_protocol import GetContainerStatusesRequest
from yarnopp_cli.records.job_protocol import SubmitApplicationRequest
from yarnopp_cli.records.master_protocol import AllocateRequest, RegisterApplicationMasterRequest
from yarnopp_cli.records.requests import ApplicationSubmissionContext, Token
from yarnopp_cli.rpc.blocking import Connection
from yarnopp_cli.rpc.plain import encode_call

from .conftest import Yopp, a_yopp, wait_until

CLONE_NEWNET = 0x40000000
HERE, THERE = "198.18.0.1", "198.18.0.2"
PORT = 8049
IDLE_MS = 500
PER_ADDRESS = 40
HELD_MB = 24
LISTENS = "0A"
"""The state of a socket that listens, in /proc/net/tcp."""
ON_THE_WAY = 60
"""So many connections may be accepted and not yet refused, or closed and not yet gone."""


def have_networks() -> bool:
    """Whether namespaces of networks can be made, and joined."""
    try:
        made = ["unshare", "-n", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"]
        return subprocess.run(made, capture_output=True).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not have_networks(), reason="only root can make namespaces of networks"),
]


class Apart(Yopp):
    """A cluster in a network of its own; ``there`` is a neighbour's."""

    here = there = 0

    @property
    def command(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.here}/ns/net", *super().command]

    @contextlib.contextmanager
    def from_there(self) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are the neighbour's."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open(f"/proc/{self.there}/ns/net") as other:
            assert libc.setns(other.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(own.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())

    def call(self) -> socket.socket:
        """A connection of the neighbour's to the AMRMProxy."""
        with self.from_there():
            return socket.create_connection((HERE, PORT), timeout=15)

    def crowd(self, number: int) -> list[socket.socket]:
        """As many of them as that, asked for at once."""
        with self.from_there():
            made = [socket.socket() for _ in range(number)]
        for one in made:
            one.setblocking(False)
            one.connect_ex((HERE, PORT))
        return made


@contextlib.contextmanager
def a_network() -> Iterator[int]:
    """The process that keeps a network of its own."""
    holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
    own = os.readlink("/proc/self/ns/net")
    try:
        wait_until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, what="it has a network")
        yield holder.pid
    finally:
        holder.communicate()


@pytest.fixture
def apart() -> Iterator[Apart]:
    """A node whose AMRMProxy listens beyond loopback."""

    def ip(pid: int, *words: str) -> None:
        subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", *words], check=True)

    with a_network() as here, a_network() as there, a_yopp(Apart) as yopp:
        yopp.here, yopp.there = here, there
        ip(here, "link", "add", "yv0", "type", "veth", "peer", "name", "yv1", "netns", str(there))
        for pid, name, address in ((here, "yv0", HERE), (there, "yv1", THERE)):
            ip(pid, "addr", "add", f"{address}/30", "dev", name)
            ip(pid, "link", "set", name, "up")
            ip(pid, "link", "set", "lo", "up")
        yopp(
            "up", "--vcores", "2", "--memory", "1024", "-Dyarn.nodemanager.amrmproxy.enabled=true",
            f"-Dyarn.nodemanager.amrmproxy.address=0.0.0.0:{PORT}",
            "-Dyopp.nodemanager.amrmproxy.loopback-only=false", f"-Dipc.client.connection.maxidletime={IDLE_MS}",
            f"-Dyopp.ipc.server.max-connections-per-address={PER_ADDRESS}", f"-Dyopp.ipc.server.max-held-mb={HELD_MB}",
        )  # fmt: skip
        yield yopp


class Felt:
    """What the node and its other callers feel of an attack."""

    def __init__(self, yopp: Apart) -> None:
        self._pid = int((yopp.run_dir / "nm-45454.pid").read_text())
        self._node = Connection(f"unix:{yopp.run_dir}/nm-45454.sock")
        self.slowest = self.most_mb = 0.0
        self.most_descriptors = 0
        self.look()

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self._pid}/fd"))

    def served(self) -> int:
        """How many connections to the AMRMProxy's port it has open."""
        rows = [row.split() for row in Path(f"/proc/{self._pid}/net/tcp").read_text().splitlines()[1:]]
        ours = [row for row in rows if row[1].endswith(f":{PORT:04X}") and row[3] != LISTENS]
        return sum(row[9] != "0" for row in ours)

    def mb(self) -> float:
        """Its resident memory."""
        return (
            int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
            * os.sysconf("SC_PAGESIZE")
            / (1 << 20)
        )

    def look(self) -> None:
        """Ask it something, as any of its other callers does."""
        before = time.monotonic()
        self._node.call(GetContainerStatusesRequest(()))
        self.slowest = max(self.slowest, time.monotonic() - before)
        self.most_descriptors = max(self.most_descriptors, self.descriptors())
        self.most_mb = max(self.most_mb, self.mb())

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        """Look until something is so."""

        def looked() -> bool:
            self.look()
            return condition()

        wait_until(looked, seconds, what)


def has_ended(caller: socket.socket) -> bool:
    """Whether the daemon has closed it; what it said before is read."""
    caller.setblocking(False)
    try:
        while caller.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def nothing(one: socket.socket) -> None:
    """It says nothing at all."""


def half_a_call(one: socket.socket) -> None:
    """Two megabytes of a call, and no end."""
    with contextlib.suppress(OSError):  # its buffer is full
        one.send(b'{"id":1,"method":"allocate","params":{"a":"' + b"x" * (2 << 20))


def unread_answers(one: socket.socket) -> None:
    """Many calls, each refused with an answer, and none of these is read."""
    line = encode_call(1, AllocateRequest("appattempt_1_0001_000001", Token("none", "{}", "")))
    with contextlib.suppress(OSError):
        while one.send(line):
            pass


def no_calls(one: socket.socket) -> None:
    """Lines that are none, without end."""
    with contextlib.suppress(OSError):
        while one.send(b"x\n" * 10_000):
            pass


@pytest.mark.parametrize("attack", [nothing, half_a_call, unread_answers, no_calls])
def test_who_does_not_keep_to_the_order_goes_and_nobody_feels_it(
    apart: Apart, attack: Callable[[socket.socket], None]
) -> None:
    assert apart("run", "echo", "well").stdout.split() == ["well"]
    felt = Felt(apart)
    before, mb = felt.descriptors(), felt.mb()
    crowd = apart.crowd(PER_ADDRESS)
    try:
        for one in crowd:
            felt.look()
            attack(one)
        assert apart("run", "echo", "well").stdout.split() == ["well"]
        # Who reads no answer has the daemon's end of it closed; his own he sees when he reads.
        felt.until(lambda: felt.served() == 0, "the daemon has closed them all")
        wait_until(lambda: all(has_ended(one) for one in crowd), what="each of them sees it")
    finally:
        for one in crowd:
            one.close()
    assert felt.most_descriptors <= before + PER_ADDRESS + ON_THE_WAY
    assert felt.most_mb - mb < HELD_MB + 24
    assert felt.slowest < 3.0


def test_a_crowd_of_one_address_has_its_share_and_takes_nobody_elses(apart: Apart) -> None:
    felt = Felt(apart)
    before = felt.descriptors()
    for _ in range(4):  # more at once have no place in the kernel's queue, and hear nothing
        crowd = apart.crowd(100)
        try:
            felt.until(lambda crowd=crowd: all(map(has_ended, crowd)), "all of them are closed", 30)
        finally:
            for one in crowd:
                one.close()
    assert felt.most_descriptors <= before + PER_ADDRESS + ON_THE_WAY
    assert felt.slowest < 3.0
    log = (apart.run_dir / "nm-45454.log").read_text()
    assert f"of {THERE}: it made no call and read no answer for 1 s" in log


def test_a_master_of_another_host_may_be_silent_and_takes_its_place_among_strangers(apart: Apart) -> None:
    with Connection(str(apart.run_dir / "rm.sock")) as rm, contextlib.ExitStack() as kept:
        context = ApplicationSubmissionContext(application_id="", name="far", unmanaged=True)
        made = rm.call(SubmitApplicationRequest(context))
        assert made.am_token is not None
        with apart.from_there():
            master = kept.enter_context(Connection(f"{HERE}:{PORT}"))
        registered = master.call(RegisterApplicationMasterRequest(made.attempt_id, made.am_token))
        assert registered.token is not None
        crowd = apart.crowd(2 * PER_ADDRESS)
        try:
            wait_until(lambda: all(has_ended(one) for one in crowd), what="strangers go")
        finally:
            for one in crowd:
                one.close()
        master.call(AllocateRequest(made.attempt_id, registered.token))


def test_who_is_cut_off_in_the_middle_leaves_nothing(apart: Apart) -> None:
    """Its connection is reset, without a FIN, in the middle of a call."""
    felt = Felt(apart)
    for _ in range(50):
        one = apart.call()
        half_a_call(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    felt.until(lambda: felt.served() == 0, "none is left")
    assert apart("run", "echo", "well").stdout.split() == ["well"]
