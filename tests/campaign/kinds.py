# SPDX-License-Identifier: MIT
"""The kinds of trials, by name: `(module, function of a seed, what it tries)`.

The function returns how many trials a seed was; None: one.

`python -m tests.campaign --kind KIND --seed SEED` tries one seed in this process, in
which a debugger finds it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What is tried with each seed; more than `seconds` for one is a hang."""

    module: str
    function: str
    what: str
    seconds: float = 60.0

    def load(self) -> Callable[[int], Any]:
        """Import the function; `tests` is where modules are looked for."""
        found: Callable[[int], Any] = getattr(
            importlib.import_module(self.module), self.function
        )
        return found


KINDS = {
    "control": Kind(
        "test_random_control",
        "check_program",
        "loops, branches, windows and variables against an interpreter",
    ),
    "gradients": Kind(
        "test_random_gradients",
        "check_seed",
        "derivatives against differences, forms of a program against each other",
    ),
    "regions": Kind(
        "test_regions",
        "check",
        "networks on 1 to 5 threads against kernels that run alone",
    ),
    "pipelines": Kind(
        "test_random_pipelines",
        "check",
        "pipelines of single ops under all schedules against a loop",
    ),
    "keras-pipelines": Kind(
        "test_random_keras_pipelines",
        "check",
        "pipelined Keras models against accumulation on one IPU",
        120.0,
    ),
    "accounts": Kind(
        "test_machine_fuzz",
        "check_program",
        "accounts of random programs against independent checkers",
    ),
    "networks": Kind(
        "test_machine_fuzz",
        "check_network",
        "accounts of random networks against bounds, and against each other",
    ),
    "spellings": Kind(
        "campaign.spellings",
        "check",
        "random models: fit, data sets, loops, files, strategies give the same bits",
        120.0,
    ),
    "soak": Kind(
        "campaign.soak",
        "check",
        "a long session in any order: memory, descriptors and threads stay flat",
        120.0,
    ),
    "failures": Kind(
        "campaign.failures",
        "check",
        "an allocation of the core or of Python fails: variables, and the next run",
    ),
    "interleavings": Kind(
        "campaign.interleavings",
        "check",
        "200 schedules of threads in the pool, services, queues, devices, programs",
        300.0,
    ),
    "moments": Kind(
        "campaign.moments",
        "check",
        "a signal, an error, a fork, a collection at one moment of a small program",
    ),
    "endings": Kind(
        "campaign.endings",
        "check",
        "the interpreter ends while a small program is under way, or after it",
    ),
    "kills": Kind(
        "campaign.kills",
        "check",
        "SIGKILL while something is saved or trained: nothing is torn, or left",
        120.0,
    ),
    "graph-texts": Kind(
        "campaign.inputs",
        "check_graph_text",
        "spoilt graph texts: parsed again alike, or refused",
    ),
    "schedule-texts": Kind(
        "campaign.inputs",
        "check_schedule_text",
        "spoilt timetables: parsed again alike, or refused",
    ),
    "guided-graphs": Kind(
        "campaign.guided",
        "check_graph_text",
        "2,000 graph texts by coverage, under sanitizers: alike after each pass",
        600.0,
    ),
    "guided-schedules": Kind(
        "campaign.guided",
        "check_schedule_text",
        "20,000 timetables by coverage, under sanitizers",
        600.0,
    ),
    "mutants": Kind(
        "campaign.mutants",
        "check",
        "a wrong operator, constant, condition or call of the core: a test fails",
        3600.0,
    ),
    "files": Kind(
        "campaign.inputs",
        "check_file",
        "spoilt models, weights, arrays, records, pictures: read, or refused",
    ),
}
