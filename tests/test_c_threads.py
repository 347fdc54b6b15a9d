"""Runs the C unit tests of rooms where several threads meet under ThreadSanitizer."""

from __future__ import annotations

import pytest
from test_c_units import PROGRAMS, run_unit

pytestmark = [pytest.mark.compiles, pytest.mark.builds]
THREADED = """
test_event test_feeding test_service test_run test_data test_machine test_threads
test_streams test_peers test_processes test_replicas test_pipeline_programs
""".split()


@pytest.mark.parametrize("name", THREADED)
def test_c_unit(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    (program,) = (path for path in PROGRAMS if path.stem == name)
    run_unit(program, "threads", tmp_path_factory)
