# SPDX-License-Identifier: MIT
"""Tell what a program's training step would cost on an IPU, without training.

The program runs as python -m ipu run would run it, up to its first call of a model's
fit, which is not made: it prints the account of that step, and the program ends. In
place of a program "mnist" stands for that of python -m ipu mnist, with its options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ipu._commands import run as run_command
from ipu._commands.profile import positive

if TYPE_CHECKING:
    from ipu.machine import Machine

HELP = "tell what a program's training step would cost on an IPU"


def _change(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not equals or number != number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a field=number")
    return name, number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = (
        "python -m ipu account [options] (program.py | -m module | mnist) [arguments]"
    )
    parser.add_argument(
        "--machine",
        help="gc2, gc200, bow or c600; if left out, that of the program's IPUConfig or "
        "of IPU_MACHINE, else gc200",
    )
    parser.add_argument(
        "--what-if",
        type=_change,
        action="append",
        default=[],
        metavar="FIELD=NUMBER",
        help="change the machine: tiles=2944; may be given several times",
    )
    parser.add_argument(
        "--batch-size",
        type=positive,
        default=32,
        help="where the data do not tell it; 32 if left out",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.add_argument(
        "--html", metavar="FILE", help="write it as a page, too: FILE ends in .html"
    )
    parser.add_argument(
        "--schedules",
        action="store_true",
        help="compare all schedules of a pipelined model, as ipu.compare_schedules",
    )
    run_command.add_program_arguments(parser)


def _check(options: argparse.Namespace) -> None:
    if options.html is not None and not options.html.lower().endswith(".html"):
        raise ValueError(
            f"--html names a file that ends in .html. Received: {options.html!r}."
        )
    if options.html is not None and not os.path.isdir(
        folder := os.path.dirname(os.path.abspath(options.html))
    ):
        raise ValueError(f"--html names a file in a folder that is not there: {folder}")
    if options.schedules and (options.json or options.html is not None):
        raise ValueError("--schedules prints a table. Leave out --json and --html.")


def _machine(options: argparse.Namespace) -> Machine:
    """Return the machine that options name, else the one that the program
    configured."""
    from ipu._config.target import target_of
    from ipu._device.devices import current_layout
    from ipu.machine import Machine

    changes = dict(options.what_if)
    if options.machine is not None:
        return Machine(options.machine, **changes)
    layout = current_layout()
    target = target_of(None if layout is None else layout.options)
    return Machine(target.name, **{**target.fields, **changes})


def _show(options: argparse.Namespace, model: Any, batch: tuple[Any, Any]) -> None:
    """Print what is asked for of a model's step."""
    machine = _machine(options)
    if options.schedules:
        from ipu import compare_schedules

        print(compare_schedules(model, batch, machine=machine))
        return
    found = model.account(*batch, machine=machine)
    if options.html is not None:
        found.save(options.html)
    print(found.to_json() if options.json else found)


def _mnist(options: argparse.Namespace) -> int:
    from ipu._commands import mnist

    parser = argparse.ArgumentParser(prog="python -m ipu account mnist")
    mnist.add_arguments(parser)
    model, batch = mnist.untrained(parser.parse_args(options.arguments))
    _show(options, model, batch)
    return 0


def run(options: argparse.Namespace) -> int:
    """Run the program up to its first fit; the exit status is 0 if there was one."""
    from ipu.keras.engine.training.trainer import Trainer

    run_command.require_program(options)
    try:
        _machine(options)
        _check(options)
    except (TypeError, ValueError) as error:
        print(f"python -m ipu account: {error}", file=sys.stderr)
        return 2
    if options.program == "mnist" and not os.path.exists(options.program):
        return _mnist(options)

    def account(model: Any, x: Any = None, y: Any = None, *args: Any, **kw: Any) -> Any:
        given = args[0] if args else kw.get("batch_size")
        element = _specs(x, y, given or options.batch_size, given is not None)
        _show(options, model, element)
        sys.stdout.flush()
        raise SystemExit(0)

    fit = Trainer.fit
    Trainer.fit = account  # type: ignore[method-assign, assignment]
    try:
        status = run_command.run_here(options)
    finally:
        Trainer.fit = fit  # type: ignore[method-assign]
    if status:
        return status
    print(
        "The program called no model's fit: there is nothing to account. See "
        "ipu.machine.estimate for functions.",
        file=sys.stderr,
    )
    return 1


def _specs(x: Any, y: Any, batch: int, is_given: bool) -> tuple[Any, Any]:
    """Return what a batch of the data given to fit looks like."""
    from ipu import keras, tf

    spec = getattr(x, "element_spec", None)
    if spec is not None:
        x, y = spec[:2]
    elif isinstance(x, keras.utils.PyDataset):
        x, y = spec = x[0][:2]
    elif isinstance(x, Iterator):
        x, y = spec = next(x)[:2]

    def of_batch(one: Any) -> Any:
        if hasattr(one, "to_numpy"):
            one = one.to_numpy()
        if not hasattr(one, "shape"):
            raise ValueError(
                "The shapes of the data for fit are not known: "
                f"{type(one).__name__}. Give arrays, or use model.account in the "
                "program."
            )
        sizes = list(one.shape)
        if spec is None or is_given or sizes[0] is None:
            sizes[0] = batch
        dtype = tf.as_dtype(one.dtype)
        narrow = {tf.float64: tf.float32, tf.int64: tf.int32, tf.uint8: tf.float32}
        return tf.TensorSpec(sizes, narrow.get(dtype, dtype))

    return tf.nest.map_structure(of_batch, x), tf.nest.map_structure(of_batch, y)
