# SPDX-License-Identifier: MIT
"""Run a program and say where the time of its steps goes.

The program runs as python -m ipu run would run it: programs in the package's own style
and old TensorFlow programs alike. Arguments after its name go to the program.
"""

from __future__ import annotations

import argparse
import json
import sys

from ipu._commands import run as run_command

HELP = "run a program and say where its time goes"


def _steps(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        steps = (int(first or 0), int(last or 2**63))
    except ValueError:
        steps = (0, 0)
    if not colon or not 0 <= steps[0] < steps[1]:
        raise argparse.ArgumentTypeError(
            f"steps are A:B, from A on, before B, with A < B; not {text!r}"
        )
    return steps


def _workers(text: str) -> tuple[int, ...]:
    counts = tuple(int(one) if one.isdecimal() else 0 for one in text.split(","))
    if any(not 2 <= count <= 256 for count in counts):
        raise argparse.ArgumentTypeError(
            f"workers are numbers from 2 to 256 with commas, 8,16,32; not {text!r}"
        )
    return counts


def positive(text: str) -> int:
    """Return a number from 1 on, as an option."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = (
        "python -m ipu profile [options] (program.py | -m module) [arguments]"
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace for https://ui.perfetto.dev"
    )
    parser.add_argument(
        "--top", type=positive, default=10, help="how many ops and lines to show"
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        metavar="A:B",
        help="record steps A to B - 1 of each program; all by default",
    )
    parser.add_argument(
        "--peak",
        action="store_true",
        help="measure what a core can reach, and show products' share of it",
    )
    parser.add_argument(
        "--scale",
        type=_workers,
        metavar="P,P,...",
        default=(),
        help="rehearse the program on one thread: what a step would take on so many, "
        "and what bounds it",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the figures as JSON, times in ns"
    )
    run_command.add_program_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the program, then print; the exit status is the program's."""
    from ipu.profiler import Profile

    run_command.require_program(options)
    profile = Profile(
        options.trace, steps=options.steps, top=options.top, scale=options.scale
    )
    status: object = 0
    try:
        with profile:
            status = run_command.run_here(options)
    except SystemExit as ended:
        # what the program's own end means is for the caller to say, after the profile
        _show(profile, options)
        raise ended
    _show(profile, options)
    return int(str(status))


def _show(profile: object, options: argparse.Namespace) -> None:
    from ipu import _core
    from ipu.profiler import Profile

    assert isinstance(profile, Profile)
    sys.stdout.flush()
    peak = _core.peak_gflops() if options.peak else None
    if options.json:
        print(json.dumps({**profile.to_dict(), "peak_gflops": peak}))
        return
    if not profile.programs:
        print(
            "No step of a program was recorded: nothing ran on a device, or --steps "
            "leaves out all that did.",
            file=sys.stderr,
        )
        return
    profile.print(peak=peak)
    if peak is not None:
        print(f"the peak of a core, as measured: {peak:.1f} GFLOP/s")
    print(
        f"{profile.seconds:.3f} s in all, {profile.host_seconds:.3f} s of them outside "
        "of programs"
    )
    if options.trace:
        print(f"trace: {options.trace}")
