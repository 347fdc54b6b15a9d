# SPDX-License-Identifier: MIT
"""Run a TensorFlow program for the IPU as it is, on simulated IPUs.

Its imports of tensorflow and keras are served by ipu; TensorFlow is neither needed nor
used. Arguments after the program's name go to the program. With -n it runs in several
processes, which MPI's launcher starts.
"""

from __future__ import annotations

import argparse

HELP = "run a TensorFlow program for the IPU unmodified"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = (
        "python -m ipu run [-n PROCESSES [--replicas R] [--ipus-per-replica I]] "
        "[--full-traceback] (program.py | -m module) [arguments]"
    )
    parser.add_argument(
        "-n",
        dest="processes",
        type=_positive,
        metavar="PROCESSES",
        help="run it in so many processes, which share a training (needs ipu[mpi])",
    )
    parser.add_argument(
        "--replicas",
        type=_positive,
        metavar="R",
        help="what popdist tells the program of its replicas in all processes",
    )
    parser.add_argument(
        "--ipus-per-replica",
        type=_positive,
        metavar="I",
        help="what popdist tells it of the IPUs of each",
    )
    add_program_arguments(parser)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"not a positive number: {text!r}")
    return int(text)


def add_program_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which program to run, and what it gets."""
    parser.add_argument(
        "--full-traceback",
        action="store_true",
        help="show the frames of ipu in tracebacks too",
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        help="run a module instead of a file, as python -m does",
    )
    parser.add_argument(
        "program", nargs="?", help="the file, notebook or folder to run"
    )
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="what the program gets"
    )


def require_program(options: argparse.Namespace) -> None:
    """Raise ValueError if the command line names no program."""
    if not options.module and options.program is None:
        raise ValueError(f"name a program: python -m ipu {options.command} program.py")


def run(options: argparse.Namespace) -> int:
    """Run the program, here or in several processes; the exit status is its own."""
    require_program(options)
    if options.processes is None:
        return run_here(options)
    from ipu._device.launcher import launch

    if options.replicas is not None and options.replicas % options.processes:
        raise ValueError(
            f"--replicas {options.replicas} cannot be shared out among "
            f"{options.processes} processes: give a multiple of {options.processes}"
        )
    words = ["--full-traceback"] if options.full_traceback else []
    words += ["-m", *options.module] if options.module else [options.program]
    told = {
        "POPDIST_NUM_TOTAL_REPLICAS": options.replicas,
        "POPDIST_NUM_IPUS_PER_REPLICA": options.ipus_per_replica,
    }
    command = ["-m", "ipu", "run", *words, *options.arguments]
    return launch(options.processes, command, told)


def run_here(options: argparse.Namespace) -> int:
    """Run the program in this process; the exit status is its own."""
    from ipu.drop_in import _program

    full = options.full_traceback
    if options.module:
        name, *arguments = options.module
        return _program.run_module(name, arguments, full)
    return _program.run_file(options.program, options.arguments, full)
