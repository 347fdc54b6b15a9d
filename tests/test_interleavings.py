"""What threads do together, under a scheduler that a seed drives (`-m builds`)."""

from __future__ import annotations

import subprocess

import pytest
from campaign import interleavings
from core_builds import run

pytestmark = [pytest.mark.compiles, pytest.mark.builds]
# two threads and few turns: every schedule with at most so many preemptions
SMALL = {
    "service_stops": 2,
    "service_stops_itself": 2,
    "service_comes_back": 2,
    "cache_of_two": 2,
    "prefetch_is_left": 2,
    "exchanges": 2,
    "exchanges_fail": 2,
    "infeed_closes": 1,
    "feeder_lends": 1,
    "outfeed_unread": 1,
    "brought_work": 1,
}


def test_scenarios() -> None:
    """A fixed share of what the campaign tries."""
    for seed in range(len(interleavings.scenarios())):
        interleavings.check(seed)


@pytest.mark.parametrize("name", SMALL)
def test_all_schedules(name: str) -> None:
    count = run([interleavings.program(), "--all", name, str(SMALL[name])])
    assert int(count) > 10


@pytest.mark.parametrize(
    "name, told",
    [
        ("wrong_wake", "wrong_wake: seed "),  # time had to go by
        ("wrong_signal", "deadlock"),
        ("wrong_order", "deadlock"),
        ("wrong_count", "CHECK(atomic_load(&count) == 2)"),
        ("wrong_free", "CHECK(!b->is_freed || i == b->bytes)"),
    ],
)
def test_what_is_wrong_is_found(name: str, told: str) -> None:
    """And the seed that found it finds it again."""
    program = interleavings.program()
    done = subprocess.run([program, name, "1", "300"], capture_output=True, text=True)
    assert done.returncode != 0 and told in done.stderr, done.stderr
    seed = done.stderr.partition("seed ")[2].split()[0].rstrip(",:")
    again = subprocess.run([program, name, seed, "1"], capture_output=True, text=True)
    assert again.returncode != 0 and told in again.stderr, again.stderr
