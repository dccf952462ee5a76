"""A job's connection to its cluster, which it joins or starts.

A job joins the cluster of its run directory. If none is running, it starts an on-demand cluster, which ends
with its last job. A cluster that is ending refuses the job: the client waits for its end and starts another.
A job that could not be submitted leaves no cluster behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from executor.hints import TYPE_CHECKING
from executor.light import replace
from executor.records import Resource

from ..cluster.rundir import RunDir
from ..errors import (
    ConnectionFailedError,
    InvalidResourceRequestError,
    MastersNotHostedError,
    NoAnswerError,
    NodeNotFoundError,
    ShuttingDownError,
    TimedOutError,
    YoppError,
)
from ..records.job_protocol import (
    GetApplicationsRequest,
    SubmitApplicationRequest,
    SubmitApplicationResponse,
    SubmitJobRequest,
)
from ..records.methods import Request, ResponseT
from ..records.reports import DRAINED, ON_DEMAND, ApplicationReport, ClusterInfo, NodeReport, NodeState
from ..records.requests import ANY
from ..rpc.blocking import DEFAULT_TIMEOUT, Connection
from ..rpc.plain import TooLargeError
from ..settings.declarations import ApplicationSettings
from ..views.text import number_of

if TYPE_CHECKING:
    from ..records.explanation import Explanation
    from ..records.jobs import JobSpec
    from ..settings.loading import Configuration

LINGER = "yopp.on-demand.linger-ms"
INTERRUPTED = "Killed by its client: interrupted by Ctrl-C."
ATTEMPTS = 3
ENDING_SECONDS = 15.0
NODES_SECONDS = 2.0
"""Seconds that a job waits for the first node before it checks whether a node can come."""
START_SECONDS = 30.0
"""Seconds that a job waits in total while daemons are being started."""
GONE_SECONDS = 3.0
"""Seconds that the command waits for the end of an on-demand cluster."""


def why_no_node(nodes: Iterable[NodeReport], *, starting: bool = False) -> str:
    """Why a job waits if no node accepts new containers, with a command to type."""
    there = list(nodes)
    drained = [one.node_id for one in there if one.state in DRAINED and one.connected]
    if drained:
        names = f"{drained[0]} is" if len(drained) == 1 else f"{', '.join(drained[:5])} are"
        return f"{names} drained, so the job waits: `yopp node resume {drained[0]}`"
    if bad := [one for one in there if one.state is NodeState.UNHEALTHY]:
        because = f" ({bad[0].health_report})" if bad[0].health_report else ""
        return (
            f"{bad[0].node_id} is unhealthy{because}, so the job waits: `yopp node status {bad[0].node_id}`"
        )
    if starting:
        return "the cluster is still starting, so the job waits: `yopp status` shows its daemons"
    return "no NodeManager is running, so the job waits: `yopp up` starts it again"


def _unsure(error: YoppError, why: str) -> NoAnswerError:
    return NoAnswerError(
        f"{error.message} while it took the job",
        because=f"the job may have been submitted, and might run twice if it were submitted again: {why}",
        hint="`yopp app list -a` shows whether it was; if not, type the command again",
    )


class JobClient:
    """A connection to the RM of a run directory, for one job, which was submitted at ``submitted_at`` (monotonic).
    ``note`` is called with lines for the user. ``limit`` is the job's time limit in seconds, 0 for none; it expires at
    ``until`` (monotonic). The client waits no longer than that for a cluster or a node, and the job has the remaining
    time."""

    def __init__(
        self,
        run_dir: RunDir,
        configuration: Configuration,
        note: Callable[[str], None],
        limit: float = 0.0,
    ) -> None:
        self.run_dir = run_dir
        self.configuration = configuration
        self.note = note
        self.limit = limit or float("inf")
        self._begun = time.monotonic()
        self.until = self._begun + self.limit
        self.connection: Connection | None = None
        self.started_here = self.restarted = False
        self.submitted_at = 0.0
        self.settings = configuration.settings(ApplicationSettings)

    def open(self) -> Connection:
        """Connect, after starting a cluster if there is none. Raises YoppError."""
        if self.connection is not None:
            return self.connection
        self.run_dir.check(closing=True)
        try:
            self.connection = Connection(self.run_dir.rm_socket)
        except ConnectionFailedError:
            if not self.settings.on_demand_enabled:
                raise
            try:
                self.connection = self._start()
            except KeyboardInterrupt:
                self._undo_start()
                raise
        return self.connection

    def _undo_start(self) -> None:
        """End the daemons of an interrupted start at once."""
        try:
            self.connection = Connection(self.run_dir.rm_socket)
        except ConnectionFailedError:
            return
        self.started_here = True
        self.abandon()

    def _start(self) -> Connection:
        from ..cluster.lifecycle import ensure_cluster

        seconds = max(0.0, min(START_SECONDS, self.until - time.monotonic()))
        try:
            handle = ensure_cluster(self.configuration, self.run_dir, lifetime=ON_DEMAND, timeout=seconds)
        except YoppError as error:
            if time.monotonic() < self.until:
                raise
            raise TimedOutError(
                f"no cluster was ready within {self.limit:g} s, the time limit of the job",
                because=": ".join(filter(None, (error.message, error.because))),
                hint="use a longer --timeout, or start a cluster with `yopp up` before",
            ) from error
        for warning in handle.warnings:
            self.note(f"warning: {warning}")
        if handle.started and handle.info.lifetime == ON_DEMAND:
            self.started_here = True
            size = ", ".join(
                f"{number_of(node.total.vcores, 'vcore')}, {node.total.memory} MB" for node in handle.nodes
            )
            stored = handle.info.applications_running + handle.info.applications_pending
            ends = "ends with it"
            if stored:
                ends = f"goes on with {number_of(stored, 'stored application')}, and ends after the last"
            self.note(f"no cluster was running: started one for this job ({size}), which {ends}")
        elif handle.started:
            self.restarted = True
            names = ", ".join(handle.started)
            self.note(f"restarted {names} of the cluster, which stays until `yopp down`")
        return Connection(self.run_dir.rm_socket)

    def submit(
        self,
        request: SubmitJobRequest | None,
        otherwise: Callable[[], SubmitApplicationRequest],
    ) -> SubmitApplicationResponse:
        """Submit the job; if the cluster is ending, to the next one; to an RM that was restarted, the same submission
        again. ``otherwise`` makes the request if the RM hosts no masters, the job is too large for one message, or
        ``request`` is None. Raises YoppError.
        """
        key, attempt, unsure = os.urandom(12).hex(), 1, False
        while True:
            try:
                response = self._submit(request, otherwise, key)
                self.submitted_at = time.monotonic()
                break
            except NoAnswerError:
                self.close()
                raise
            except ConnectionFailedError as error:
                from ..cluster.state import may_return

                unsure = unsure or (self.connection is not None and may_return(self.run_dir))
                self.close()
                if unsure and attempt == ATTEMPTS:
                    raise _unsure(error, f"the ResourceManager was lost {ATTEMPTS} times") from None
                if unsure:  # Otherwise the cluster has ended, and its jobs with it.
                    self._find_next_life(error)
                elif attempt == ATTEMPTS or not self.settings.on_demand_enabled:
                    raise
            except ShuttingDownError:
                self.close()
                unsure = False  # The RM does not have the job.
                if attempt == ATTEMPTS or not self.settings.on_demand_enabled:
                    raise
                self.run_dir.wait_until_gone(min(ENDING_SECONDS, self.until - time.monotonic()))
            except (YoppError, KeyboardInterrupt):
                self.abandon()
                raise
            attempt += 1
        if response.info.nodes_running:
            return response
        try:
            return self._wait_for_a_node(response)
        except (ShuttingDownError, ConnectionFailedError):
            self.close()  # The job is submitted, whatever happens to this RM.
            return response
        except KeyboardInterrupt:
            self._end(response.application_id)
            self.abandon()
            raise
        except YoppError:
            self.abandon()
            raise

    def charged(self, job: JobSpec) -> JobSpec:
        """The job, with the elapsed part of its time limit."""
        passed = time.monotonic() - self._begun if self.limit < float("inf") else 0.0
        return replace(job, start_ms=round(passed * 1000))

    def _submit(
        self, request: SubmitJobRequest | None, otherwise: Callable[[], SubmitApplicationRequest], key: str
    ) -> SubmitApplicationResponse:
        self.open()
        if request is not None:
            context = replace(request.context, key=key)
            try:
                return self.open().call(replace(request, context=context, job=self.charged(request.job)))
            except (MastersNotHostedError, TooLargeError):
                pass  # Its master runs outside the RM.
        elsewhere = otherwise()
        return self.open().call(replace(elsewhere, context=replace(elsewhere.context, key=key)))

    def _find_next_life(self, error: ConnectionFailedError) -> None:
        """Connect to the next process of an RM that died and may have accepted the job. Raises NoAnswerError if no RM
        knows whether the job was accepted.
        """
        from ..client.patience import Patience
        from ..cluster.state import may_return
        from ..records.client_protocol import GetClusterInfoRequest

        patience = Patience(self.note, lambda: may_return(self.run_dir))
        why, lost = "the ResourceManager that answers now has no stored state", error
        try:
            while self.connection is None:
                patience.lost(lost)
                try:
                    self.connection = Connection(self.run_dir.rm_socket)
                    info = self.connection.call(GetClusterInfoRequest())
                    patience.found()
                    if info.cluster_timestamp != info.started_at_ms:
                        return
                except NoAnswerError:
                    raise
                except ConnectionFailedError as again:
                    self.close()
                    lost = again
        except ConnectionFailedError as gone:
            why = gone.message
        self.close()
        raise _unsure(error, why) from None

    def _wait_for_a_node(self, response: SubmitApplicationResponse) -> SubmitApplicationResponse:
        """Wait for the first node, counted from the submission: the RM serves before its nodes register, and another
        command may just be starting the cluster.

        Warn that there is no node only if that is certain: no command is starting daemons, and the RM knows
        every running NodeManager.
        """
        from ..cluster.state import watched_names
        from ..records.client_protocol import (
            GetClusterInfoRequest,
            GetClusterNodesRequest,
            WaitForNodesRequest,
        )

        connection = self.open()
        until = self.submitted_at + min(self.limit, START_SECONDS)
        while True:
            seconds = max(0.0, min(NODES_SECONDS, until - time.monotonic()))
            request = WaitForNodesRequest(1, round(seconds * 1000))
            if connection.call(request, timeout=seconds + GONE_SECONDS).satisfied:
                break
            # In this order, a starting node is seen as a start, as a process, or by the RM; a dead one that is due to
            # be restarted counts, too.
            starts, running = self.run_dir.is_changing(), self.run_dir.daemons()
            nodes = connection.call(GetClusterNodesRequest()).nodes
            known = {one.pid for one in nodes}
            starts = starts or any(one.name != "rm" and one.process.pid not in known for one in running)
            starts = (
                starts or {*watched_names(self.run_dir)} - {"rm", *(one.name for one in running)} != set()
            )
            if any(one.state is NodeState.RUNNING and one.connected for one in nodes):
                continue
            if not starts or time.monotonic() >= until:
                self.note(f"warning: {why_no_node(nodes, starting=starts)}")
                return response
        info = connection.call(GetClusterInfoRequest())
        return replace(response, info=info)

    def _end(self, application_id: str) -> None:
        """End a job whose command is interrupted before it follows the job, or prints its id."""
        from ..records.client_protocol import KillApplicationRequest

        told = f"interrupted by Ctrl-C: ended {application_id}"
        try:
            with Connection(self.run_dir.rm_socket) as connection:
                connection.call(KillApplicationRequest(application_id, INTERRUPTED), timeout=GONE_SECONDS)
        except YoppError as error:
            told = f"interrupted by Ctrl-C, but {application_id} was not ended: {error.message}"
        self.note(told)

    def abandon(self) -> None:
        """The job was not submitted: end the cluster that was started for it, unless another job uses it."""
        from ..records.client_protocol import GetClusterInfoRequest, ShutdownClusterRequest

        info = self._ask(GetClusterInfoRequest(), GONE_SECONDS) if self.started_here else None
        if info is not None and info.lifetime == ON_DEMAND:
            busy = info.applications_running + info.applications_pending
            if not busy and self._ask(ShutdownClusterRequest(), GONE_SECONDS) is not None:
                self.close()
                self.run_dir.wait_until_gone(GONE_SECONDS)
        self.close()

    def _ask(self, request: Request[ResponseT], timeout: float = DEFAULT_TIMEOUT) -> ResponseT | None:
        """The RM's answer; None if the RM cannot be reached."""
        if self.connection is None:
            return None
        try:
            return self.connection.call(request, timeout=timeout)
        except YoppError:
            return None

    def find_node(self, name: str) -> str:
        """The node named by its id, its host, its port, or the end of its id. Raises NodeNotFoundError."""
        if name == ANY:
            return name
        from ..records.client_protocol import GetClusterNodesRequest

        response = self.open().call(GetClusterNodesRequest())
        nodes = response.nodes
        running = [node.node_id for node in nodes if node.state is NodeState.RUNNING]
        if name in running:
            return name
        if any(node_id.rsplit(":", 1)[0] == name for node_id in running):
            return name
        matches = [node_id for node_id in running if node_id.endswith(name)]
        if len(matches) == 1:
            return matches[0]
        self.abandon()
        raise NodeNotFoundError(
            f"{'several nodes are' if matches else 'no running node is'} named {name}",
            because=f"running: {', '.join(matches or running) or 'none'}",
            hint="yopp node list",
            sought=name,
        )

    def check_sizes(self, sizes: Iterable[Resource]) -> None:
        """Refuse containers that are larger than any node, before the submission, where the RM sees no job but only
        the requests of its master. Raises InvalidResourceRequestError.
        """
        from ..allocation.asks import check_fits
        from ..records.client_protocol import GetClusterInfoRequest

        largest = self.open().call(GetClusterInfoRequest()).maximum
        try:
            for size in dict.fromkeys(sizes):
                check_fits(size, {largest} - {Resource()})
        except InvalidResourceRequestError:
            self.abandon()
            raise

    def report(self, application_id: str) -> ApplicationReport | None:
        """The RM's present report of the application; None if the RM cannot be reached."""
        found = self._ask(GetApplicationsRequest(application_ids=(application_id,)))
        return found.applications[0] if found is not None and found.applications else None

    def explain(self, application_id: str) -> Explanation | None:
        """Why the application waits, as the RM sees it; None if the RM cannot be reached."""
        from ..records.explanation import ExplainRequest

        return self._ask(ExplainRequest(application_id))

    def leave(self, info: ClusterInfo) -> None:
        """Disconnect. If an on-demand cluster ends with this job, wait up to GONE_SECONDS for its end."""
        ends = info.lifetime == ON_DEMAND and not int(info.properties.get(LINGER, "0") or 0)
        if ends:
            from ..records.client_protocol import GetClusterInfoRequest

            now = self._ask(GetClusterInfoRequest(), GONE_SECONDS)
            ends = now is None or (now.lifetime == ON_DEMAND and not now.applications_running)
        self.close()
        if ends:
            self.run_dir.wait_until_gone(GONE_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
