"""Jobs of ended clusters, found by their kept histories: the same way for all commands that accept such jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from executor.hints import TYPE_CHECKING, TypeVar

from ...cluster.histories import read_history
from ...errors import ApplicationNotFoundError, ConnectionFailedError, NoAnswerError, YoppError
from ...views.text import harmless
from .naming import is_container, kept_application

if TYPE_CHECKING:
    from ...cluster.rundir import RunDir
    from ...records.history import ApplicationHistory
    from .session import Session

T = TypeVar("T")


def here_or_ended(
    session: Session, named: Sequence[str], ask: Callable[[Sequence[str]], Sequence[T]]
) -> tuple[list[T], list[ApplicationHistory]]:
    """The result of ``ask`` in the cluster for the words, and the histories of jobs that only an ended cluster knew.
    The cluster comes first, because the numbers of its jobs begin anew.

    Raises the error of ``ask`` for a word that neither knows."""
    try:
        return list(ask(named)), []
    except (ConnectionFailedError, ApplicationNotFoundError) as error:
        if session.yarn is not None or not session.run_dir.kept_histories():
            raise
        lost = error
    found: list[T] = []
    kept: list[ApplicationHistory] = []
    for word in named:
        try:
            found += ask([word])
        except NoAnswerError:
            raise  # The cluster may know the job.
        except (ConnectionFailedError, ApplicationNotFoundError) as error:
            lost = error
        else:
            continue
        kept.append(_history(session.run_dir, word, lost))
    return found, kept


def ended_application(run_dir: RunDir, word: str, others: Sequence[str] = ()) -> str:
    """The full id of the job that a word means, among the jobs with a kept history and the ids of ``others``. Raises
    ApplicationNotFoundError, and UsageError for several."""
    kept = run_dir.kept_histories()
    known = sorted({*kept, *others}, key=lambda one: (len(one), one))
    return kept_application(known, word, lambda one: read_history(run_dir, one).application)


def _history(run_dir: RunDir, word: str, lost: YoppError) -> ApplicationHistory:
    """The history of the job that a word means. Raises ``lost``, the cluster's answer, if there is none."""
    try:
        return read_history(run_dir, ended_application(run_dir, word))
    except ApplicationNotFoundError:
        if not isinstance(lost, ConnectionFailedError) or is_container(word):
            raise lost from None
        raise ConnectionFailedError(
            lost.message,
            because=f"{lost.because}, and no job of an ended cluster matches {harmless(word)}",
            hint=lost.hint,
        ) from None
