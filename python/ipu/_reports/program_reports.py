# SPDX-License-Identifier: MIT
"""Reports of programs as they are compiled and run, where somebody asks for them.

They are made from the machine's account of the program: events of the first SDK
generation, and a folder for each program where ``autoReport`` options ask for one.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipu._config.report_requests import ReportRequest
from ipu._reports import event_trace
from ipu._reports.event_trace import IpuTraceEvent
from ipu._text.log import logger
from ipu._text.tables import as_text

if TYPE_CHECKING:
    from ipu import _core
    from ipu._device.devices import Device
    from ipu._device.observers import Compiled, Traced
    from ipu._reports.machine_account import Account

_TYPES = {"float32": "float", "float16": "half", "int32": "int", "uint32": "uint"}
_loaded: dict[int, int] = {}  # the program of each device, by its number


def account_of(trace: _core.Trace, device: Device) -> Account:
    """Return the account of a program that has been traced and is not compiled yet."""
    from ipu.machine import Account, Machine

    target = device.target[0]
    found = trace.account(target.request(device.num_ipus, True))
    replicas = device.replication_factor(len(found["memories"]))
    machine = Machine(target.name, **target.fields)
    return Account(machine, found, None, replicas)


def begin(build: Any, device: Device, request: ReportRequest) -> Traced:
    """Note that a program is compiled, and give whom to tell when it is."""
    build.is_account = True  # nodes get the names of their layers
    number = device.ordinal
    began = time.perf_counter()
    if request.has_events:
        event_trace.add(
            IpuTraceEvent(IpuTraceEvent.COMPILE_BEGIN, number, module_name=build.name)
        )

    needs = (
        request.has_reports
        or request.has_execution
        or request.folder
        or request.maps
        or request.is_printed
    )

    def traced(trace: _core.Trace) -> Compiled:
        account = account_of(trace, device) if needs else None
        graph = trace.text if request.has_graph else ""

        def compiled(program: _core.Program) -> None:
            _Reporter(build, device, request, account, graph, program, began)

        return compiled

    return traced


class _Reporter:
    """Reports of one program."""

    def __init__(
        self,
        build: Any,
        device: Device,
        request: ReportRequest,
        account: Account | None,
        graph: str,
        program: _core.Program,
        began: float,
    ) -> None:
        self.name: str = build.name
        self.request = request
        self.number = device.ordinal
        self.id = program.id
        self.executions = 0
        self.execution_report = ""
        self.inputs = program.input_types
        if account is not None and request.folder is not None:
            _write_folder(request.folder, self.name, account)
        if account is not None and request.maps:
            _write_map(request.maps, self.name, self.id, account)
        if account is not None and request.is_printed:
            print(self.name, compile_text(account), sep="\n")
            print(execute_text(account), flush=True)
        if not request.has_events:
            return
        values: dict[str, Any] = {
            "module_name": self.name,
            "duration": round(1e6 * (time.perf_counter() - began)),
        }
        if account is not None and request.has_reports:
            made = compile_text(account) if request.is_text else account.to_json()
            values["compilation_report"] = self._kept(made, "report")
            values["tensor_map"] = json.dumps(tensor_map(account, self.name))
            values["instruction_info"] = json.dumps(instruction_info(account))
        if account is not None and request.has_execution:
            made = execute_text(account) if request.is_text else execute_json(account)
            self.execution_report = made
        if graph:
            values["poplar_graph"] = graph
        self._add(IpuTraceEvent.COMPILE_END, **values)
        build.before.append(self._load)
        build.after.append(self._execute)

    def _add(self, kind: int, **values: Any) -> None:
        event_trace.add(IpuTraceEvent(kind, self.number, **values))

    def _load(self) -> None:
        if _loaded.get(self.number) == self.id:
            return
        _loaded[self.number] = self.id
        self._add(IpuTraceEvent.LOAD_ENGINE, module_name=self.name)
        if self.executions == 0 and self.inputs:
            tensors = [
                {
                    "name": f"input {i}",
                    "id": f"{self.id}.{i}",
                    "shape": list(shape),
                    "type": dtype,
                    "size": math.prod(shape),
                }
                for i, (dtype, shape) in enumerate(self.inputs)
            ]
            transfer = json.dumps({"tensors": tensors})
            self._add(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, data_transfer=transfer)

    def _execute(self) -> None:
        every, count = self.request.every, self.executions
        self.executions += 1
        is_due = count == 0 if every == 0 else count % every == 0
        report = self._kept(self.execution_report, "execution") if is_due else ""
        self._add(IpuTraceEvent.EXECUTE, module_name=self.name, execution_report=report)

    def _kept(self, report: str, what: str) -> str:
        """Return the report, the file that it is in, or nothing where it is too
        large."""
        if not report:
            return ""
        size = len(report.encode())
        if size > self.request.most_bytes:
            logger.warning(
                "The %s of %s is dropped: it has %d bytes, more than max_report_size, "
                "%d.",
                what,
                self.name,
                size,
                self.request.most_bytes,
            )
            return ""
        if not self.request.directory:
            return report
        ending = "txt" if self.request.is_text else "json"
        folder = Path(self.request.directory) / f"{_file_name(self.name)}_{self.id}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{what}.{ending}"
        path.write_text(report, encoding="utf-8")
        return os.fspath(path)


def _file_name(name: str) -> str:
    """Return a program's name without its place, as a file may be called."""
    return re.sub(r"[^\w.-]+", "_", name.partition(" (")[0]).strip("_") or "program"


def _write_map(folder: str, name: str, number: int, account: Account) -> None:
    """Write the map of a program's tensors into the folder that a flag names."""
    path = Path(folder) / f"{_file_name(name)}_{number}.tensor_map.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(tensor_map(account, name)), encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise type(error)(
            error.errno,
            f"--tensor_map_file_path: the map of {name} cannot be written: {why}",
            os.fspath(path),
        ) from None


def _write_folder(parent: str, name: str, account: Account) -> None:
    """Write a folder of its own for each program."""
    while True:
        now = datetime.now().strftime("%Y-%m-%d__%H-%M-%S-%f")[:-3]
        folder = Path(parent) / f"tf_report__{now}__{os.getpid()}"
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:  # a program of the same millisecond
            time.sleep(0.001)
        except OSError as error:
            why = error.strerror or str(error)
            raise type(error)(
                error.errno,
                f"autoReport.directory: the report of {name} cannot be written: {why}",
                os.fspath(folder),
            ) from None
    account.save(folder / "profile.json")
    account.save(folder / "profile.html")
    frameworks = {
        "name": name,
        "tensor_map": tensor_map(account, name),
        "instruction_info": instruction_info(account),
    }
    text = json.dumps(frameworks)
    (folder / "frameworks.json").write_text(text, encoding="utf-8")


# --- what reports say -----------------------------------------------------------------


def tensor_map(account: Account, name: str) -> dict[str, Any]:
    """Return where the elements of each tensor and variable lie.

    Returns:
        ``{"mappings": {name: entries}}``; an entry is [instruction, output, shape,
        element type, has constants, has aliases, elements, [[tile, elements], ...]].
    """
    all_tiles = int(account.machine.tiles)
    entries = []
    for memory in account.memories:
        outputs: dict[tuple[str, int], int] = {}
        for one in (*memory.held, *memory.tensors):
            dtype, _, sizes = one.type.partition("[")
            shape = [int(n) for n in sizes.rstrip("]").split(",") if n]
            key = (one.name, one.first)
            outputs[key] = outputs.get(key, -1) + 1
            base = memory.ipu * all_tiles
            parts = [
                [base + (one.first_tile + i) % all_tiles, n]
                for i, n in enumerate(one.elements)
            ]
            entries.append(
                [
                    f"{one.name}.{one.first}",
                    outputs[key],
                    shape,
                    _TYPES.get(dtype, dtype),
                    0,
                    0,
                    math.prod(shape),
                    parts,
                ]
            )
    return {"mappings": {name: entries}}


def instruction_info(account: Account) -> dict[str, Any]:
    """Return the kind of each product.

    Returns:
        ``{"ml_types": {instruction: kind}}``: 1 for one on its own, 2 for a forward
        pass that has gradients, 3 for the gradient of an input, 4 for that of a filter,
        0 where it is not known which.
    """
    products: dict[str, list[str]] = {}
    for step in account.steps:
        whole = step.name.partition(": ")[0]
        op = whole.rpartition("/")[2]
        if op.startswith(("matmul", "conv")):
            layer = whole.rpartition("/")[0]
            found = products.setdefault(layer, [])
            name = f"{whole}.{step.number}"
            if name not in found:
                found.append(name)
    kinds: dict[str, int] = {}
    for layer, found in products.items():
        for i, name in enumerate(found):
            if "conv_grad_input" in name:
                kinds[name] = 3
            elif "conv_grad_filter" in name:
                kinds[name] = 4
            elif i == 0:
                kinds[name] = 2 if len(found) > 1 and layer else 1
            else:
                kinds[name] = 0
    return {"ml_types": kinds}


def _listing(title: str, rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name + ':':<{width + 1}}  {value}" for name, value in rows]
    return "\n".join([f"{title}:", *lines])


def compile_text(account: Account) -> str:
    """Return what is known before a program runs, in the order of the first
    generation's text reports."""
    machine, ipus = account.machine, account.ipus
    tiles = int(machine.tiles)
    compute = [step for step in account.steps if step.kind == "compute"]
    tensors = sum(len(memory.tensors) for memory in account.memories)
    target = [
        ("Number of IPUs", f"{ipus:,}"),
        ("Tiles per IPU", f"{tiles:,}"),
        ("Total tiles", f"{tiles * ipus:,}"),
        ("Memory per tile", f"{machine.tile_bytes / 1024:,.1f} kB"),
        ("Total memory", f"{machine.tile_bytes * tiles * ipus / 2**20:,.1f} MB"),
        ("Clock speed (approx)", f"{machine.clock / 1e6:,.1f} MHz"),
    ]
    graph = [
        ("Number of vertices", f"{sum(step.tiles for step in compute):,}"),
        ("Number of variables", f"{tensors:,}"),
        ("Number of compute sets", f"{len(compute):,}"),
    ]
    memory = []
    for one in account.memories:
        verdict = "" if one.fits else ", which it does not have"
        memory += [
            (f"IPU {one.ipu}, variables", f"{one.variables:,.0f} B"),
            (f"IPU {one.ipu}, not always live", f"{one.live:,.0f} B, at {one.at}"),
            (f"IPU {one.ipu}, fullest tile", f"{one.max_tile:,.0f} B{verdict}"),
        ]
    parts = [
        _listing("Target", target),
        _listing("Graph", graph),
        _listing("Memory Usage", memory),
    ]
    return "\n\n".join(parts) + "\n"


def execute_text(account: Account) -> str:
    """Return what an execution takes, step by step."""
    rows = [["step", "kind", "IPU", "cycles", "times", "tiles"]]
    rows += [
        [s.name, s.kind, str(s.ipu), f"{s.cycles:,.0f}", f"{s.times:g}", str(s.tiles)]
        for s in account.steps
    ]
    head = [
        ("Cycles", f"{account.cycles:,.0f}"),
        ("Microseconds", f"{1e6 * account.seconds:,.1f}"),
        ("Tiles at work", f"{account.utilisation:.1%}"),
    ]
    return f"{_listing('Execution', head)}\n\n{as_text(rows, left=2)}\n"


def execute_json(account: Account) -> str:
    """Return the same as JSON."""
    heads = ("name", "kind", "ipu", "start", "cycles", "times", "tiles")
    steps = [{head: getattr(s, head) for head in heads} for s in account.steps]
    found = {"cycles": account.cycles, "seconds": account.seconds, "steps": steps}
    return json.dumps(found)
