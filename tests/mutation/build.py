# SPDX-License-Identifier: MIT
"""A copy of the tree whose core has all mutants in it, each behind its switch."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from core_builds import COMPILER, ROOT, run

from .c_mutants import mutate, named

# the tests of the copied tree are told where that is
FOLDER = Path(os.environ.get("IPU_MUTATION_FOLDER", ROOT / "build" / "mutation"))
TREE = FOLDER / "tree"
ROOMS = """
    base graph trace autodiff passes pipeline memory program peers run data machine
""".split()
SWITCH = [
    f"-L{FOLDER}",
    "-Wl,--no-as-needed",
    "-lipuswitch",
    f"-Wl,-rpath,{FOLDER}",
]
_FLAGS = ["-std=c11", "-DNDEBUG", f"-I{ROOT / 'ipu_core'}"]
_SLOTS = 64  # numbers of a file begin at a multiple: few move when one file changes


def _write(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def copy(tree: Path, kept: Path, is_left_out: Callable[[str], bool]) -> None:
    """Bring a copied tree up to date; what has not changed keeps its time."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = set(run(listed, cwd=ROOT).strip("\0").split("\0"))
    before = json.loads(kept.read_text()) if kept.exists() else []
    for gone in set(before) - names:
        (tree / gone).unlink(missing_ok=True)
    for name in names:
        path = ROOT / name
        if path.is_file() and not is_left_out(name):
            _write(tree / name, path.read_bytes())
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(sorted(names)))


def _is_mutated(name: str) -> bool:
    parts = Path(name).parts
    return parts[0] == "ipu_core" and parts[1] in ROOMS and name.endswith(".c")


def _mutate() -> list[str]:
    """Write all mutants; return their names by number, the first of which is none."""
    names = [""]
    kept = FOLDER / "written.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for room in ROOMS:
        for source in sorted((ROOT / "ipu_core" / room).glob("*.c")):
            file = source.relative_to(ROOT)
            stamp = f"{_digest(source)} {len(names)}"
            if known.get(str(file), {}).get("stamp") != stamp:
                made = mutate(source, _FLAGS, COMPILER, TREE / file, len(names))
                own = named(str(file.relative_to("ipu_core")), made)
                known[str(file)] = {"stamp": stamp, "names": own}
            names += known[str(file)]["names"]
            names += [""] * (-len(names) % _SLOTS)
    kept.write_text(json.dumps(known))
    return names


def _digest(source: Path) -> str:
    """Return a digest of what a file's mutants are made of, its headers included."""
    told = run([*COMPILER, *_FLAGS, "-MM", str(source)]).replace("\\\n", " ")
    files = [Path(name) for name in told.split()[1:]]
    files.append(Path(__file__).with_name("c_mutants.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def build(is_sanitized: bool = False) -> list[str]:
    """Build what has changed; return the names of mutants, by number.

    The C programs are built under sanitizers, or as they are.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    copy(TREE, FOLDER / "copied.json", _is_mutated)
    names = _mutate()
    library = FOLDER / "libipuswitch.so"
    page = [
        f'-DIPU_SWITCH_FILE="{FOLDER / "switch"}"',
        f"-DIPU_SWITCH_BYTES={4 + len(names)}",
    ]
    source = Path(__file__).with_name("switch.c")
    run([*COMPILER, "-shared", "-fPIC", *page, str(source), "-o", str(library)])
    env = {**os.environ, "LDFLAGS": " ".join(SWITCH)}
    env["IPU_MUTATION_FOLDER"] = str(FOLDER)
    run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=TREE, env=env)
    word = ["--sanitized"] if is_sanitized else []
    programs = [sys.executable, "-m", "mutation.c_programs", *word]
    run(programs, cwd=TREE / "tests", env=env)
    (FOLDER / "names.json").write_text(json.dumps(names))
    return names


if __name__ == "__main__":
    print(f"{sum(map(bool, build())):,} mutants")
