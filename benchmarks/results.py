# SPDX-License-Identifier: MIT
"""The page of what was measured: `python -m benchmarks.results` writes RESULTS.md.

It shows the files of `results/`, which the benchmarks write with `--json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.tables import Table

FOLDER = Path(__file__).parent
FIRST = ("jobs", "networks", "ops")  # the others by their names

HEAD = """# What was measured

`python -m benchmarks.results` makes this page of the files in `results/`; README.md
says what is measured, and how. A figure belongs to its machine: only ratios carry over,
those of one table.
"""


def page(folder: Path = FOLDER / "results") -> str:
    """The page, as Markdown."""
    paths = {path.stem: path for path in sorted(folder.glob("*.json"))}
    names = [name for name in FIRST if name in paths]
    names += [name for name in paths if name not in FIRST]
    parts = [HEAD]
    for name in names:
        record: dict[str, Any] = json.loads(paths[name].read_text())
        about = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
        done = f"`{record['command']}`, {record['date'][:10]}"
        parts.append(f"## {name}\n\n{done}: {about}.\n")
        parts += [Table(**table).markdown() for table in record["tables"]]
    return "\n".join(parts)


if __name__ == "__main__":
    (FOLDER / "RESULTS.md").write_text(page())
