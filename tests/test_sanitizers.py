"""The Python tests again, with the extension built under sanitizers.

Each build is made in a copy of the tree, so that the extension in use stays as it is.
The sanitizer's runtime has to be there before Python starts: it is preloaded. Reports
go to log files, which are read afterwards; CPython and NumPy leak a few objects of
their own at exit, so a leak counts where a frame of our extension is in its stack.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiles
ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "ipu_core", "python")
# fit, data sets, programs and queues, tensors; functions, loops and their gradients
EXERCISES = (
    "test_keras_training.py",
    "test_keras_training_errors.py",
    "test_data.py",
    "test_data_generators.py",
    "test_data_threads.py",
    "test_collection.py",
    "test_data_selections.py",
    "test_device_programs.py",
    "test_tensor.py",
    "test_function.py",
    "test_control_flow.py",
    "test_control_flow_gradients.py",
    "test_rows_and_arrays.py",
    "test_custom_gradients.py",
    "test_tape.py",
    "test_taped_functions.py",
    "test_random_loops.py",
    "test_infeed.py",
    "test_outfeed.py",
    "test_pipelining.py",
    "test_pipeline_arguments.py",
    "test_pipeline_errors.py",
    "test_replicas.py",
)
RUNTIMES = {"address": "asan", "undefined": "ubsan", "thread": "tsan"}
OPTIONS = {
    # exact stacks through CPython, which has no frame pointers
    "address": "fast_unwind_on_malloc=0:malloc_context_size=12",
    "undefined": "print_stacktrace=1",
    # a test forks while the worker pool is alive; a fork takes all locks, of which its
    # detector of deadlocks holds 64 (the C units run with it)
    "thread": "die_after_fork=0:detect_deadlocks=0",
}
ERROR = re.compile(
    r"runtime error:|WARNING: ThreadSanitizer|ERROR: \w+Sanitizer: (?!detected)"
)


def compiler() -> list[str]:
    return os.environ.get("CC", "cc").split()


def runtime(sanitizer: str) -> str:
    """The shared runtime of the compiler in use, or a skip."""
    short = RUNTIMES[sanitizer]
    alone = "_standalone" if short == "ubsan" else ""
    for name in (
        f"lib{short}.so",
        f"libclang_rt.{short}{alone}-{platform.machine()}.so",
    ):
        found = subprocess.run(
            [*compiler(), f"-print-file-name={name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if Path(found).is_absolute() and Path(found).is_file():
            return found
    pytest.skip(f"{compiler()[0]} has no shared runtime of the {sanitizer} sanitizer")


def build(folder: Path, **settings: str) -> Path:
    """A copy of the tree with an extension of its own; the folder of the package."""
    hidden = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=hidden)
        else:
            shutil.copy(ROOT / name, folder)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "python"


def exercise(package: Path, logs: Path, **settings: str) -> tuple[str, str]:
    """Run the tests on `package`: what pytest printed, and what the sanitizer did."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
            *(str(ROOT / "tests" / name) for name in EXERCISES),
        ],
        env={**os.environ, "PYTHONPATH": str(package), **settings},
        cwd=package,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    reports = "".join(path.read_text() for path in sorted(logs.parent.glob("log.*")))
    return done.stdout + done.stderr, reports


def findings(reports: str) -> list[str]:
    """The reports that are about us."""
    bad = []
    for report in re.split(r"\n\n+", reports):
        if re.search(r"(Direct|Indirect) leak of", report):
            if re.search(r"/ipu/_core\.", report):
                bad.append(report)
        elif ERROR.search(report):
            bad.append(report)
    return bad


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", sorted(RUNTIMES))
def test_python_tests_pass_under(sanitizer: str, tmp_path: Path) -> None:
    preload = runtime(sanitizer)
    tree = tmp_path / "tree"
    tree.mkdir()
    package = build(tree, IPU_SANITIZE=sanitizer, IPU_DEBUG="1")
    extension = next((package / "ipu").glob("_core*.so"))
    symbols = subprocess.run(
        ["nm", "-D", str(extension)], capture_output=True, text=True, check=True
    ).stdout
    assert f"__{RUNTIMES[sanitizer]}_" in symbols, "the build has no checks in it"

    logs = tmp_path / "log"
    text = f"exitcode=0:log_path={logs}:{OPTIONS[sanitizer]}"
    options = {f"{RUNTIMES[sanitizer].upper()}_OPTIONS": text}
    said, reports = exercise(
        package, logs, LD_PRELOAD=preload, PYTHONMALLOC="malloc", **options
    )
    assert not findings(reports), "\n\n".join(findings(reports)[:5])
    assert re.search(r"\[100%\]|\d+ passed", said) and "FAILED" not in said, said


LEAK = """Direct leak of 64 byte(s) in 1 object(s) allocated from:
    #0 0x7f in malloc
    #1 0x7f in {} ({}.cpython-311-x86_64-linux-gnu.so+0x2)"""


def test_findings_are_told_from_noise() -> None:
    ours = LEAK.format("ipu_arena_alloc", "/x/python/ipu/_core")
    numpys = LEAK.format("init_string_ufuncs", "/x/numpy/_core/_multiarray_umath")
    leaks = "==1==ERROR: LeakSanitizer: detected memory leaks"
    assert findings("\n\n".join([leaks, numpys])) == []
    assert findings("\n\n".join([leaks, numpys, ours])) == [ours]
    for report in (
        "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6",
        "WARNING: ThreadSanitizer: data race (pid=1)",
        "a.c:3:5: runtime error: signed integer overflow",
    ):
        assert findings(report) == [report]
