"""The run directory: the place of a cluster's sockets, pid files and logs, and which of its daemons run.

The directory identifies the cluster: two commands that resolve to the same directory talk to the same
daemons, whatever their environment (``XDG_RUNTIME_DIR`` is not used: cron and ``ssh host cmd`` do not have
it). Nothing here starts, stops or signals a process.

Decisions: unix-sockets.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping

from executor.hints import TYPE_CHECKING
from executor.light import Record, contextmanager, pattern, suppress
from executor.regular import NotRegularError, open_regular, read_regular, write_whole

from ..errors import EXIT_NOT_PERMITTED, YoppError, reason_of

if TYPE_CHECKING:
    from .processes import ProcessId

SITE, NODES, TOKEN = "site.json", "nodes.json", "rest.token"
"""The names of the files of a cluster: its configuration, its planned nodes, the token of its REST API."""
PORT = ".port"
"""The ending of the files with the ports of daemons' pages, which a restarted daemon tries first."""
RECORDS = "containers"
"""The name of the records of containers below an NM's state directory."""
FIRST_PORT = 45454
LAST_PORT = 65535
SUN_PATH_BYTES = 107
"""The longest path of a Unix socket: sockaddr_un has 108 bytes, the last of which is NUL (unix(7))."""
_LONGEST_SOCKET = f"/nm-{LAST_PORT}.sock"
_PID_FILE = pattern(r"(rm|nm-([1-9][0-9]{0,4}))\.pid")
_PROXY_SOCKET = pattern(r"am-([1-9][0-9]{0,4})\.sock")
_LOCK_POLL_SECONDS = 0.01

RM_STATE_SUFFIXES = ("", "-wal", "-shm")
"""The suffixes of the files that hold the RM's state."""


class Daemon(Record):
    """A running daemon of a run directory. ``port`` is 0 for the RM."""

    name: str
    port: int
    process: ProcessId


class RunDir(Record):
    """The paths of one cluster, all absolute. ``socket_dir`` is ``path`` unless that is too long for sockets.

    ``state_dir`` holds output, private directories and the records of containers. Constructing a RunDir does
    no I/O on these directories: :meth:`prepare` creates and checks them.
    """

    path: str
    state_dir: str
    socket_dir: str

    @classmethod
    def resolve(cls, explicit: str | None, environ: Mapping[str, str], uid: int, home: str) -> RunDir:
        """``explicit`` (--run-dir) › ``YOPP_RUN_DIR`` › root: /run/yopp › ``home``/.local/state/yopp/run.

        With either of the first two, the state is in ``<run dir>/state``; else in /var/lib/yopp, or in
        ``home``/.local/state/yopp.
        """
        named = explicit or environ.get("YOPP_RUN_DIR", "")
        default = _default(uid, home)
        made = cls.of(named, uid=uid) if named else default
        if made is None:
            raise YoppError(
                "no run directory",
                because="you have no home directory",
                hint="name one with --run-dir or YOPP_RUN_DIR",
            )
        # A path that spells out the default is the same cluster, so it must have the same state directory.
        return default if default is not None and made.path == default.path else made

    @classmethod
    def of(cls, path: str, *, state_dir: str | None = None, uid: int | None = None) -> RunDir:
        """The cluster of a directory; symbolic links among its parents are resolved."""
        full = os.path.abspath(path)
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        return cls(
            path=full,
            state_dir=state_dir if state_dir is not None else os.path.join(full, "state"),
            socket_dir=_socket_directory(full, os.getuid() if uid is None else uid),
        )

    @property
    def key(self) -> str:
        """Eight hexadecimal digits that identify this directory: the name of the parent of its cgroups."""
        return _digest(self.path)

    def nm_group(self, port: int) -> str:
        """The cgroup of an NM, relative to the configured hierarchy."""
        return f"{self.key}/nm-{port}"

    @property
    def rm_socket(self) -> str:
        """The socket of the RM."""
        return os.path.join(self.socket_dir, "rm.sock")

    def nm_socket(self, port: int) -> str:
        """The socket of an NM."""
        return os.path.join(self.socket_dir, f"nm-{port}.sock")

    def proxy_socket(self, port: int) -> str:
        """The socket of an NM's AMRMProxy."""
        return os.path.join(self.socket_dir, f"am-{port}.sock")

    def pid_file(self, name: str) -> str:
        """The pid file of ``rm`` or ``nm-<port>``, which the daemon keeps locked while it runs."""
        return os.path.join(self.path, f"{name}.pid")

    def http_file(self, name: str) -> str:
        """The file with the web address (host:port) of ``rm`` or ``nm-<port>``, while it serves pages."""
        return os.path.join(self.path, f"{name}.http")

    def http_address(self, name: str) -> str:
        """The web address of ``rm`` or ``nm-<port>``; "" while it serves no pages."""
        return (self.read(f"{name}.http") or "").strip()

    def web_port(self, name: str) -> int:
        """The port of the pages of ``rm`` or ``nm-<port>``, now or when it last ran; 0 if it had none."""
        text = (self.read(f"{name}{PORT}") or "").strip()
        return (
            int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 1 << 16 else 0
        )

    def log_file(self, name: str) -> str:
        """The log of ``rm`` or ``nm-<port>``."""
        return os.path.join(self.path, f"{name}.log")

    @property
    def site_file(self) -> str:
        """The file of the configuration with which the cluster runs."""
        return os.path.join(self.path, SITE)

    @property
    def nodes_file(self) -> str:
        """The file of the planned nodes: their ports and sizes."""
        return os.path.join(self.path, NODES)

    @property
    def lock_file(self) -> str:
        """The file that a command locks while it starts or stops daemons of this cluster."""
        return os.path.join(self.path, "lock")

    @property
    def history_dir(self) -> str:
        """The directory of the histories of ended applications."""
        return os.path.join(self.state_dir, "history")

    def history_file(self, application_id: str) -> str:
        """The history of one application."""
        return os.path.join(self.history_dir, f"{application_id}.json")

    def kept_histories(self) -> list[str]:
        """The ids of the applications with a kept history, in order of submission; empty if unreadable."""
        try:
            names = os.listdir(self.history_dir)
        except OSError:
            return []
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        found = [one for one in ids if one.startswith("application_")]
        return sorted(found, key=lambda one: (len(one), one))

    @property
    def rm_state_file(self) -> str:
        """The file of the RM's stored state, for recovery by the next RM."""
        return os.path.join(self.state_dir, "rm", "state.db")

    @property
    def rm_events_file(self) -> str:
        """The RM's log of events, beside its state."""
        return os.path.join(self.state_dir, "rm", "events.log")

    def forget_rm_state(self) -> None:
        """Remove the RM's state and events: the next RM starts empty."""
        events = (self.rm_events_file, f"{self.rm_events_file}.1")
        state = self.rm_state_file
        for path in (*(state + suffix for suffix in RM_STATE_SUFFIXES), mark_of(state), *events):
            with suppress(OSError):
                os.unlink(path)
        with suppress(OSError):
            os.rmdir(os.path.dirname(self.rm_state_file))

    def nm_state_dir(self, port: int) -> str:
        """The state directory of an NM."""
        return os.path.join(self.state_dir, f"nm-{port}")

    def records_dir(self, port: int) -> str:
        """The directory in which an NM keeps the records of its containers."""
        return os.path.join(self.nm_state_dir(port), RECORDS)

    def cgroups_file(self, port: int) -> str:
        """The file in which an NM notes the places of its cgroups."""
        return os.path.join(self.nm_state_dir(port), "cgroups.json")

    def exists(self) -> bool:
        """Whether the run directory exists."""
        return os.path.isdir(self.path)

    def prepare(self) -> None:
        """Create missing directories with mode 0700, and refuse directories that other users could change.

        Raises YoppError (exit code 77 if the owner or the mode is wrong, 1 if one
        cannot be created or written).
        """
        _make_private(self.path, "the run directory")
        if self.socket_dir != self.path:
            _make_private(os.path.dirname(self.socket_dir), "the directory of the sockets")
            _make_private(self.socket_dir, "the directory of the sockets")
            self.write("where", self.socket_dir + "\n")
        try:
            os.makedirs(self.state_dir, mode=0o700, exist_ok=True)
            if os.geteuid() == 0 and not f"{self.state_dir}/".startswith(f"{self.path}/"):
                # Containers of other users work below it. They may pass through it, but not list it;
                # what is in it is closed to others.
                os.chmod(self.state_dir, 0o711)
        except OSError as error:
            raise _unusable(self.state_dir, "the state directory", error) from None

    def check(self, *, guest: bool = False, closing: bool = False) -> None:
        """Raise YoppError for a directory with the wrong owner or mode. Creates nothing; a missing one is accepted.

        ``closing``: a cluster may be started here, so an empty directory of ours is closed to others.
        """
        with suppress(FileNotFoundError):
            _check_private(self.path, "the run directory", guest=guest, closing=closing)
        if self.socket_dir != self.path:
            # It is in /tmp, where any user may have created it to impersonate our daemons.
            with suppress(FileNotFoundError):
                for directory in (os.path.dirname(self.socket_dir), self.socket_dir):
                    _check_private(directory, "the directory of the sockets", closing=closing)

    def write(self, name: str, text: str) -> None:
        """Write a file of the run directory, mode 0600, atomically: readers see the old text or the new."""
        path = os.path.join(self.path, name)
        try:
            write_whole(path, text.encode())
        except OSError as error:
            raise _unusable(path, "", error) from None

    def read(self, name: str) -> str | None:
        """The text of a file of the run directory; None if there is no regular file of that name, or no
        UTF-8 in it."""
        path = os.path.join(self.path, name)
        try:
            return read_regular(path).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError, NotRegularError, UnicodeDecodeError):
            return None
        except OSError as error:
            raise YoppError(
                f"cannot read {path}", because=reason_of(error), hint="`ls -l` shows who owns it"
            ) from None

    def daemons(self) -> tuple[Daemon, ...]:
        """The running daemons: the RM first, then the NMs by port."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _unusable(self.path, "the run directory", error) from None
        found = [self.daemon(match[1]) for match in map(_PID_FILE.fullmatch, names) if match]
        return tuple(sorted((one for one in found if one is not None), key=lambda one: one.port))

    def daemon(self, name: str) -> Daemon | None:
        """The running daemon called ``rm`` or ``nm-<port>``; None if there is none."""
        process = _holder(self.pid_file(name))
        if process is None:
            return None
        return Daemon(name, 0 if name == "rm" else int(name.removeprefix("nm-")), process)

    def wait_until_gone(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until no daemon runs; whether all have ended."""
        from .processes import wait_for_end

        return not wait_for_end([daemon.process for daemon in self.daemons()], timeout)

    def stale_files(self) -> tuple[str, ...]:
        """The paths of the pid files, web address files and sockets of daemons that have ended."""
        found = []
        for directory, ending in ((self.path, ".pid"), (self.path, ".http"), (self.socket_dir, ".sock")):
            try:
                names = sorted(os.listdir(directory))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name in names:
                proxy = _PROXY_SOCKET.fullmatch(name)
                daemon = f"nm-{proxy[1]}" if proxy and ending == ".sock" else name.removesuffix(ending)
                if daemon == name or not _PID_FILE.fullmatch(f"{daemon}.pid") or self.daemon(daemon):
                    continue
                found.append(os.path.join(directory, name))
        return tuple(found)

    def remove_stale_files(self) -> tuple[str, ...]:
        """Remove the stale files of daemons that have ended, and return their paths. Call it
        under the lock."""
        found = self.stale_files()
        for path in found:
            with suppress(OSError):
                os.unlink(path)
        return found

    @contextmanager
    def lock(self, timeout: float = 30.0, *, force: bool = False) -> Iterator[None]:
        """Hold the lock for starting and stopping daemons. YoppError if another process holds it for ``timeout`` s, or
        if the file cannot be opened: with ``force``, the body runs without a lock then."""
        try:
            descriptor = _open_lock(self.lock_file)
        except OSError as error:
            if not force:
                raise YoppError(
                    f"cannot lock {self.lock_file}",
                    because=reason_of(error),
                    hint="mend what the reason names, or end the cluster without a lock: `yopp down --force`",
                ) from None
            yield
            return
        try:
            _acquire(descriptor, self.lock_file, timeout)
            yield
        finally:
            os.close(descriptor)

    def is_changing(self) -> bool:
        """Whether a command is starting or stopping daemons of this cluster."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def mark_of(state_file: str) -> str:
    """The mark of the RM's state: not in its directory, so that it is not lost with it."""
    return f"{os.path.dirname(state_file)}.mark"


def _default(uid: int, home: str) -> RunDir | None:
    if uid == 0:
        return RunDir.of("/run/yopp", state_dir="/var/lib/yopp", uid=uid)
    if not home:
        return None
    state = os.path.join(home, ".local", "state", "yopp")
    return RunDir.of(os.path.join(state, "run"), state_dir=state, uid=uid)


def _digest(path: str) -> str:
    import hashlib  # the import takes 3 ms, and not every command needs it

    return hashlib.sha256(os.fsencode(path)).hexdigest()[:8]


def _socket_directory(path: str, uid: int) -> str:
    if len(os.fsencode(path)) + len(_LONGEST_SOCKET) <= SUN_PATH_BYTES:
        return path
    return f"/tmp/yopp-{uid}/{_digest(path)}"


def _make_private(path: str, what: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # whatever the umask
        _check_private(path, what, closing=True)
    except OSError as error:
        raise _unusable(path, what, error) from None


def _check_private(path: str, what: str, *, guest: bool = False, closing: bool = False) -> None:
    """Raise unless ``path`` is a directory, not a link, owned by this user (for a ``guest`` who is root: by
    any user), and closed to others. An empty one needs only be closed to their writing; ``closing`` closes it.
    """
    facts = os.lstat(path)
    mode, me = stat.S_IMODE(facts.st_mode), os.geteuid()
    exit_code: int | None = EXIT_NOT_PERMITTED
    if stat.S_ISLNK(facts.st_mode):
        because = "it is a symbolic link, which another user could redirect"
        hint = f"name its target: {os.path.realpath(path)}"
    elif not stat.S_ISDIR(facts.st_mode):
        because, hint, exit_code = "it is not a directory", "name another one", None
    elif facts.st_uid != me and not (guest and me == 0):
        because = f"it belongs to user {facts.st_uid}, and you are {me}"
        hint = "name your own directory with --run-dir or YOPP_RUN_DIR"
    elif not mode & 0o077:
        return
    elif not os.listdir(path) and (closing or not mode & 0o022):
        if closing:
            os.chmod(path, 0o700)  # `mkdir d; yopp --run-dir d up` must work
        return
    else:
        because, hint = (
            f"its mode {mode:04o} gives others access",
            f"chmod 700 {path}, or name another directory",
        )
    raise YoppError(f"{what} {path} is refused", because=because, hint=hint, exit_code=exit_code)


def _unusable(path: str, what: str, error: OSError) -> YoppError:
    return YoppError(
        f"cannot use {what} {path}" if what else f"cannot write {path}",
        because=reason_of(error),
        hint="free some space, or name another directory with --run-dir"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "name a directory that you can write to, with --run-dir or YOPP_RUN_DIR",
    )


def _holder(path: str) -> ProcessId | None:
    """The process that holds the lock of a pid file; None if there is none.

    The lock is tried only if the pid in the file is that of a process of the file's owner: a starting daemon writes its
    pid after it has taken the lock, and must not find the lock taken by a command that only inspects.
    """
    try:
        descriptor = open_regular(path)
    except OSError:
        return None
    import fcntl

    from executor.linux.procfs import author

    from .processes import ProcessId

    try:
        text = os.read(descriptor, 64).split()
        process = ProcessId.of(int(text[0])) if text and text[0].isdigit() else None
        if process is not None and author(process.pid) == os.fstat(descriptor).st_uid:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return process
    finally:
        os.close(descriptor)


def _open_lock(path: str) -> int:
    """The file of the lock, for reading only where a read-only directory has one: flock(2) needs no more. Raises
    OSError."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    except OSError:
        with suppress(OSError):
            return os.open(path, os.O_RDONLY | flags)
        raise


def _acquire(descriptor: int, path: str, timeout: float) -> None:
    import fcntl

    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = "unknown"
                with suppress(OSError):  # no regular file has that name
                    holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or holder
                raise YoppError(
                    "another yopp is starting or stopping this cluster",
                    because=f"process {holder} has held {path} for over {timeout:.3g} s",
                    hint=f"`ps {holder}` shows it; wait for it, or end it",
                ) from None
        time.sleep(_LOCK_POLL_SECONDS)  # flock(2) has no timeout
    with suppress(OSError):  # a full disk: the pid is only for the message above
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
