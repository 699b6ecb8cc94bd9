"""The engines that run tasks: Ray, and Slurm by way of submitit.

An executor has four methods; what :meth:`submit` returns is a handle for the others. It does not
run a task again that was lost with its node: :mod:`lib.cluster.handing` does, for all alike.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from lib.cluster.task import Task
from lib.files.errors import UserError, in_one_line

ACCOUNTS = ("sacct", "--jobs", "1")  # by which submitit knows what has become of a job
ANSWER_SECONDS = 10  # that a Ray cluster may take to answer
JOBS = 9999  # tasks at a time: all that are ready wait in the engine's queue, not in make's


class Lost(Exception):
    """A task's worker or node is gone; the message says what the engine knows of it."""


class Executor(Protocol):
    """Where tasks run."""

    jobs: int  # how many tasks make hands over at a time

    def submit(self, task: Task) -> Any:
        """Put a task into the queue."""

    def finished(self, handle: Any) -> bool:
        """Whether it has ended, however that went."""

    def result(self, handle: Any) -> int:
        """The exit code of a task that has ended; :class:`Lost` if there is none."""

    def cancel(self, handle: Any) -> None:
        """End it, or take it out of the queue."""

    def close(self) -> None:
        """Let go of the engine."""


class RayExecutor:
    """Plain Ray tasks.

    The cluster is the one at ``RAY_ADDRESS``; else one that runs on this machine; else one of
    this machine alone is started for as long as make runs.

    Raises:
        UserError: if there is no cluster at that address.
    """

    jobs = JOBS

    def __init__(self) -> None:
        address = os.environ.get("RAY_ADDRESS", "")
        _check_answers(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self.ray = ray
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
        except Exception as error:  # some are no more than that
            where = f"RAY_ADDRESS={address}" if address else "Ray on this machine"
            raise UserError(f"{where}: no cluster: {in_one_line(error)}") from None
        self.run: Callable[..., Any] = ray.remote(_run).options

    def submit(self, task: Task) -> Any:
        """Start a task; Ray spreads tasks over the nodes."""
        resources = {"num_cpus": task.cpus, "num_gpus": task.gpus}
        options = self.run(**resources, max_retries=0, scheduling_strategy="SPREAD")
        return options.remote(task)

    def finished(self, handle: Any) -> bool:
        done, _ = self.ray.wait([handle], timeout=0)
        return bool(done)

    def result(self, handle: Any) -> int:
        """Wait for a task; what was raised in the command itself is raised here."""
        try:
            return self.ray.get(handle)
        except self.ray.exceptions.RayTaskError:
            raise  # ours: a defect, or a folder that the node cannot write
        except self.ray.exceptions.RayError as error:
            raise Lost(_first(error)) from None

    def cancel(self, handle: Any) -> None:
        """End a task: the worker is killed, and the command with it."""
        self.ray.cancel(handle, force=True)

    def close(self) -> None:
        """Leave; Ray ends whatever still runs for this program."""
        self.ray.shutdown()


class SubmititExecutor:
    """Jobs of Slurm, or processes of this machine that are handled alike.

    Args:
        cluster: ``slurm`` or ``local``.
        folder: for the scripts and logs of jobs, which all nodes see.
        minutes: after which Slurm ends a job; it is then put in the queue again and goes on.

    Raises:
        UserError: if this machine has no Slurm.
    """

    def __init__(self, cluster: str, folder: Path, minutes: int) -> None:
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise UserError("EXECUTOR=slurm: this machine has no sbatch; EXECUTOR=local needs none")
        if cluster == "slurm" and subprocess.run(ACCOUNTS, capture_output=True).returncode:
            print("Slurm keeps no accounts here (sacct): of a job that it kills nothing is told")
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)
        self.submitit, self.cluster, self.minutes = submitit, cluster, minutes
        self.folder = folder
        self.jobs = JOBS if cluster == "slurm" else len(os.sched_getaffinity(0))
        if cluster == "local":
            _keep_standard_error()

    def submit(self, task: Task) -> Any:
        """Start a task; a :class:`UserError` for a part of a GPU, which only Ray gives."""
        if task.gpus != int(task.gpus):
            raise UserError(f"GPUS={task.gpus}: must be a whole number; only Ray shares one")
        again = {"slurm_max_num_timeout": JOBS} if self.cluster == "slurm" else {}
        executor = self.submitit.AutoExecutor(self.folder, cluster=self.cluster, **again)
        executor.update_parameters(
            name="tgraph",
            timeout_min=self.minutes,
            cpus_per_task=task.cpus,
            gpus_per_node=int(task.gpus),
        )
        job = executor.submit(task)
        if self.cluster == "local":
            job._results_timeout_s = 0  # of no use here: what network file systems may need
        return job

    def finished(self, handle: Any) -> bool:
        return handle.done()

    def result(self, handle: Any) -> int:
        """Wait for a task; what was raised in the command itself is raised here."""
        try:
            return handle.result()
        except self.submitit.core.utils.FailedJobError:
            raise
        except self.submitit.core.utils.UncompletedJobError as error:
            raise Lost(f"{handle.state.lower()}: {_first(error)}") from None

    def cancel(self, handle: Any) -> None:
        handle.cancel(check=False)

    def close(self) -> None:
        """Leave; what jobs printed is in their tasks' logs."""
        shutil.rmtree(self.folder, ignore_errors=True)


def executor_for(name: str, folder: Path, minutes: int) -> Executor:
    """The executor that ``EXECUTOR`` names: ``ray``, ``slurm`` or ``local``.

    Raises:
        UserError: if there is no such engine here.
    """
    return RayExecutor() if name == "ray" else SubmititExecutor(name, folder, minutes)


def _run(task: Task) -> int:
    return task()


def _keep_standard_error() -> None:
    """What is started from here on writes errors nowhere, and this process where it did.

    Of an interruption, submitit's own processes would print a traceback each.
    """
    sys.stderr = open(os.dup(2), "w", buffering=1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)


def _check_answers(address: str) -> None:
    """Raise a UserError unless somebody answers there: Ray itself would ask for many minutes."""
    host, _, port = address.rpartition(":")
    if address in ("", "auto", "local"):
        return
    if not (host and port.isdecimal()) or "/" in host:
        raise UserError(f"RAY_ADDRESS={address}: must be host:port, as `ray start --head` shows it")
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except OSError as error:
        raise UserError(f"RAY_ADDRESS={address}: nobody answers: {in_one_line(error)}") from None


def _first(error: BaseException) -> str:
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line.partition(". ")[0]
