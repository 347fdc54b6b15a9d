# SPDX-License-Identifier: MIT
"""Tables of measurements: for a terminal, as Markdown, and as the files of `results/`.

A file is `{"command", "date", "machine", "tables"}`, and what a benchmark adds.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

NO_TERMINAL_WIDTH = 160


@dataclasses.dataclass
class Table:
    """A title, a head, rows of text, and remarks below."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    remarks: list[str] = dataclasses.field(default_factory=list)

    def markdown(self) -> str:
        lines = [f"### {self.title}", ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|---" + "|---:" * (len(self.columns) - 1) + "|")
        for row in self.rows:
            cells = [cell.replace("|", "\\|") for cell in row]
            lines.append("| " + " | ".join(cells) + " |")
        for remark in self.remarks:
            lines += ["", remark]
        return "\n".join(lines) + "\n"

    def show(self) -> None:
        """Prints it with rich where that is installed, as Markdown otherwise."""
        try:
            from rich.console import Console
            from rich.table import Table as RichTable
        except ImportError:
            print(self.markdown())
            return
        console = Console()
        if not console.is_terminal:
            console = Console(width=NO_TERMINAL_WIDTH)
        table = RichTable(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for remark in self.remarks:
            console.print(remark, markup=False)


def machine() -> dict[str, str]:
    """What the figures belong to."""
    from ipu import _core

    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            about = dict(line.split(":", 1) for line in lines if ":" in line)
        about = {key.strip(): value.strip() for key, value in about.items()}
        # guests of different generations may have one name
        name = "{model name}, family {cpu family}, model {model}".format_map(about)
    except (OSError, KeyError):
        pass
    return {
        "processor": name,
        "class": _core.cpu_class(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every benchmark that makes tables."""
    add = parser.add_argument
    add("--json", type=Path, metavar="FILE", help="keep what was measured in this file")
    add("--markdown", action="store_true", help="print the tables as Markdown")


class Output:
    """Prints tables as they are made, and keeps them in the file of `--json`.

    Attributes:
        record: What the file will hold.
    """

    def __init__(self, options: argparse.Namespace, command: str) -> None:
        self.path: Path | None = options.json
        self._is_markdown: bool = options.markdown
        words = [word for word in sys.argv[1:] if not word.endswith(".json")]
        words = [word for word in words if word not in ("--json", "--markdown")]
        now = datetime.datetime.now().astimezone()
        self.record: dict[str, Any] = {
            "command": " ".join(["python -m", command, *words]),
            "date": now.isoformat(timespec="seconds"),
            "machine": machine(),
            "tables": [],
        }

    def text(self, line: str) -> None:
        print(f"{line}\n" if self._is_markdown else line, flush=True)

    def table(self, table: Table) -> None:
        self.record["tables"].append(dataclasses.asdict(table))
        if self._is_markdown:
            print(table.markdown(), flush=True)
        else:
            table.show()
        self.save()

    def save(self) -> None:
        if self.path is not None:
            text = json.dumps(self.record, indent=1)
            rows = re.compile(r"\[\s+([^][{}]*?)\s+\]")  # a line each
            text = rows.sub(lambda row: f"[{' '.join(row[1].split())}]", text)
            self.path.write_text(text + "\n")
