# SPDX-License-Identifier: MIT
"""``tf.distribute.cluster_resolver``: who the workers are, and which one this is.

The launcher tells a program that by ``TF_CONFIG``, by Slurm's variables, or through
MPI. A resolver only says it: MPI carries the messages, whatever the addresses are.

Example:
    >>> resolver = SimpleClusterResolver(
    ...     ClusterSpec({"worker": ["a:1", "b:1"]}), task_type="worker", task_id=1)
    >>> resolver.cluster_spec().num_tasks("worker"), resolver.task_id
    (2, 1)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ipu._device import processes as _processes
from ipu._text.exports import defined, export

# the order in which jobs are counted
_JOBS = ("chief", "master", "worker")


class ClusterSpec:
    """The tasks of each job of a cluster, and their addresses.

    Args:
        cluster: By job the addresses: in a list, or by number in a dict; or a
            :class:`ClusterSpec`.

    Raises:
        TypeError: It is something else.

    Source: ``tf.train.ClusterSpec``.

    Example:
        >>> spec = ClusterSpec({"chief": ["a:1"], "worker": ["b:1", "c:1"]})
        >>> spec.jobs, spec.task_address("worker", 1)
        (['chief', 'worker'], 'c:1')
    """

    def __init__(self, cluster: Any) -> None:
        given = cluster.as_dict() if isinstance(cluster, ClusterSpec) else cluster
        if not isinstance(given, Mapping):
            raise TypeError(
                "`cluster` must be a dict with a list of addresses for each job. "
                f"Received: {cluster!r}."
            )
        self._tasks: dict[str, dict[int, str]] = {}
        for job, tasks in given.items():
            is_list = isinstance(tasks, Sequence) and not isinstance(tasks, str)
            if not is_list and not isinstance(tasks, Mapping):
                raise TypeError(
                    f"The tasks of the job {job!r} must be a list or a dict of "
                    f"addresses. Received: {tasks!r}."
                )
            pairs = tasks.items() if isinstance(tasks, Mapping) else enumerate(tasks)
            self._tasks[str(job)] = {int(i): str(address) for i, address in pairs}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._tasks == other._tasks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"

    def as_dict(self) -> dict[str, Any]:
        """Return the addresses by job: lists where the tasks count from 0."""
        return {
            job: list(tasks.values()) if list(tasks) == [*range(len(tasks))] else tasks
            for job, tasks in self._tasks.items()
        }

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._tasks)

    def num_tasks(self, job_name: str) -> int:
        """Return how many tasks a job has.

        Raises:
            ValueError: There is no such job.
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the numbers of a job's tasks.

        Raises:
            ValueError: There is no such job.
        """
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of a task.

        Raises:
            ValueError: There is no such job, or no such task.
        """
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index} in job {job_name!r}.")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str]:
        """Return the addresses of a job's tasks.

        Raises:
            ValueError: There is no such job.
        """
        return list(self._job(job_name).values())

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._tasks:
            raise ValueError(
                f"No such job in cluster: {name!r}. There are: {self.jobs}."
            )
        return self._tasks[name]


class ClusterResolver:
    """The base class of resolvers, which say who the workers are.

    Attributes:
        task_type: The job of this process, or None.
        task_id: Its number in the job, or None.
        rpc_layer: Kept, and not used: MPI carries the messages.
        environment: Kept, and not used.

    Example:
        >>> SimpleClusterResolver({"worker": ["a:1"]}).num_accelerators()
        {}
    """

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment = ""
    _spec: ClusterSpec | None = None

    def cluster_spec(self) -> ClusterSpec:
        """Return the workers.

        Raises:
            NotImplementedError: The class does not say.
        """
        if self._spec is None:
            raise NotImplementedError(
                f"{type(self).__name__} must define cluster_spec()."
            )
        return self._spec

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """Return the address of a task; "" where none is named."""
        if task_type is None or task_id is None:
            return ""
        address = self.cluster_spec().task_address(task_type, task_id)
        layer = rpc_layer or self.rpc_layer
        return f"{layer}://{address}" if layer else address

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: Any = None,
    ) -> dict[str, int]:
        """Return how many accelerators of other kinds there are: none."""
        return {}


class SimpleClusterResolver(ClusterResolver):
    """Says what it is told.

    Args:
        cluster_spec: A :class:`ClusterSpec`, or what makes one.
        master: The address that :meth:`master` returns where no task is named.
        task_type: The job of this process.
        task_id: Its number in the job.
        environment: Kept, and not used; so is ``rpc_layer``.
        num_accelerators: The result of :meth:`num_accelerators`.

    Source: ``tf.distribute.cluster_resolver.SimpleClusterResolver``.

    Example:
        >>> SimpleClusterResolver({"worker": ["a:1"]}).cluster_spec().jobs
        ['worker']
    """

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Mapping[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        self._spec = ClusterSpec(cluster_spec)
        self._master = master
        self._accelerators = dict(num_accelerators or {})
        self.task_type, self.task_id = task_type, task_id
        self.environment, self.rpc_layer = environment, rpc_layer

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """Return the address of a task, or the one that was given."""
        return super().master(task_type, task_id, rpc_layer) or self._master

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: Any = None,
    ) -> dict[str, int]:
        """Return what was given."""
        return dict(self._accelerators)


class TFConfigClusterResolver(ClusterResolver):
    """Reads the environment variable ``TF_CONFIG``, as JSON.

    It says ``{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker",
    "index": 0}}``. Where it is not set there are no workers, and a strategy takes the
    processes that the launcher has started.

    Args:
        task_type: The job of this process, in place of the variable's.
        task_id: Its number, in place of the variable's.
        rpc_layer: Kept, and not used; so is ``environment``.

    Raises:
        ValueError: The variable is not such an object.

    Source: ``tf.distribute.cluster_resolver.TFConfigClusterResolver``.

    Example:
        >>> import os
        >>> os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}}'
        >>> TFConfigClusterResolver(task_id=1).cluster_spec().job_tasks("worker")
        ['a:1', 'b:1']
        >>> del os.environ["TF_CONFIG"]
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        told = self._told()
        task = told.get("task", {})
        index = task.get("index") if task_id is None else task_id
        self._spec = ClusterSpec(told.get("cluster", {}))
        self.task_type = task_type or task.get("type")
        self.task_id = None if index is None else int(index)
        self.rpc_layer = rpc_layer or told.get("rpc_layer")
        self.environment = environment or told.get("environment", "")

    @staticmethod
    def _told() -> dict[str, Any]:
        text = os.environ.get("TF_CONFIG") or "{}"
        try:
            told = json.loads(text)
            is_fine = isinstance(told, dict) and isinstance(told.get("task", {}), dict)
        except ValueError:
            is_fine = False
        if not is_fine:
            raise ValueError(
                'TF_CONFIG must be a JSON object, such as {"cluster": {"worker": '
                '["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}. Received: '
                f"{text!r}."
            )
        return dict(told)


class SlurmClusterResolver(ClusterResolver):
    """Reads what Slurm tells the tasks of a job step.

    Args:
        jobs: How many tasks each job has, in their order; None: all are workers.
        port_base: The port of the first task of a machine.
        gpus_per_node: Kept, and not used; so are ``gpus_per_task`` and
            ``auto_set_gpu``.
        tasks_per_node: How many tasks run on each machine: a number, or one for each;
            None: what Slurm says.
        rpc_layer: Kept, and not used.

    Raises:
        RuntimeError: Slurm has not started this process, and says nothing.
        ValueError: ``jobs`` has not as many tasks as the step.

    Source: ``tf.distribute.cluster_resolver.SlurmClusterResolver``.

    Example:
        >>> import os
        >>> told = {"PROCID": "2", "STEP_NODELIST": "n[7-8]",
        ...         "STEP_TASKS_PER_NODE": "2(x2)"}
        >>> os.environ.update({f"SLURM_{name}": told[name] for name in told})
        >>> resolver = SlurmClusterResolver()
        >>> resolver.task_id, resolver.cluster_spec().task_address("worker", 2)
        (2, 'n8:8888')
        >>> for name in told:
        ...     del os.environ[f"SLURM_{name}"]
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: int | Sequence[int] | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str = "grpc",
    ) -> None:
        del gpus_per_node, gpus_per_task, auto_set_gpu
        self._rank = int(_of_slurm("PROCID"))
        hosts = _hosts(_of_slurm("STEP_NODELIST"))
        if tasks_per_node is None:
            counts = _counts(_of_slurm("STEP_TASKS_PER_NODE"))
        elif isinstance(tasks_per_node, int):
            counts = [tasks_per_node] * len(hosts)
        else:
            counts = list(tasks_per_node)
        addresses = [
            f"{host}:{port_base + number}"
            for host, count in zip(hosts, counts, strict=True)
            for number in range(count)
        ]
        wanted = {"worker": len(addresses)} if jobs is None else dict(jobs)
        if sum(wanted.values()) != len(addresses):
            raise ValueError(
                f"jobs must have as many tasks as the step of Slurm, {len(addresses)}. "
                f"Received: jobs={wanted}."
            )
        tasks = iter(addresses)
        self._spec = ClusterSpec(
            {job: [next(tasks) for _ in range(n)] for job, n in wanted.items()}
        )
        self.rpc_layer = rpc_layer
        self.task_type, self.task_id = self.get_task_info()

    def get_task_info(self) -> tuple[str, int]:
        """Return the job of this process, and its number there."""
        spec = self.cluster_spec()
        left = self._rank
        for job in spec.jobs:
            count = spec.num_tasks(job)
            if left < count:
                return job, left
            left -= count
        raise ValueError(f"Slurm's task {self._rank} is in none of {spec}.")


class MPIClusterResolver(ClusterResolver):
    """Asks MPI: every process that its launcher has started is a worker.

    Raises:
        FailedPreconditionError: A launcher of MPI has started the process, and
            ``mpi4py`` is not installed.

    Example:
        >>> resolver = MPIClusterResolver()
        >>> resolver.task_type, resolver.task_id
        ('worker', 0)
    """

    def __init__(self) -> None:
        joined = _processes.join()
        self.task_type, self.task_id = "worker", joined.index
        names = [f"process:{number}" for number in range(joined.count)]
        self._spec = ClusterSpec({"worker": names})


def _of_slurm(name: str) -> str:
    for variable in (f"SLURM_{name}", f"SLURM_{name}".replace("STEP", "JOB")):
        if variable in os.environ:
            return os.environ[variable]
    raise RuntimeError(
        f"Slurm has not started this process: there is no SLURM_{name}. Start it with "
        "srun, or use TFConfigClusterResolver or MPIClusterResolver."
    )


def _hosts(text: str) -> list[str]:
    """Return the names of machines that ``n[1-2,07],m`` stands for."""
    found = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)?", text):
        head, _, rest = part.partition("[")
        inside, _, tail = rest.partition("]")
        for numbers in inside.split(","):
            first, _, last = numbers.partition("-")
            if not first:
                found.append(part)
                continue
            for number in range(int(first), int(last or first) + 1):
                found.append(f"{head}{number:0{len(first)}}{tail}")
    return found


def _counts(text: str) -> list[int]:
    """Return the numbers that ``4(x2),3`` stands for."""
    found = []
    for part in text.split(","):
        count, _, times = part.partition("(x")
        found += [int(count)] * int(times.rstrip(")") or 1)
    return found


def _worker_of(resolver: Any) -> tuple[int, int]:
    """Return how many workers a resolver names, and the number of this one.

    The chief comes first, then the workers. Where the resolver names nobody, that is
    what MPI says.

    Raises:
        ValueError: There are tasks that compute nothing, or the resolver does not say
            which one this is.
    """
    spec = ClusterSpec(resolver.cluster_spec())
    if not spec:
        joined = _processes.join()
        return joined.count, joined.index
    others = [job for job in spec.jobs if job not in _JOBS]
    if others or resolver.task_type in others:
        raise ValueError(
            "Each task of the cluster must be a chief or a worker, which trains. "
            f"Received: {spec}. Leave out {', '.join(others)}."
        )
    ranks = [
        (job, number)
        for job in _JOBS
        if job in spec.jobs
        for number in spec.task_indices(job)
    ]
    own = resolver.task_type, resolver.task_id
    if len(ranks) == 1 and own == (None, None):
        return 1, 0
    if own not in ranks:
        raise ValueError(
            "The resolver must say which task of the cluster this process is. "
            f"Received: task_type={own[0]!r}, task_id={own[1]!r}, and {spec}. Set "
            '"task" in TF_CONFIG, or give task_type and task_id.'
        )
    return len(ranks), ranks.index((str(own[0]), int(own[1])))


export(__name__, defined(__name__))
