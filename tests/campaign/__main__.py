# SPDX-License-Identifier: MIT
"""Command line of the campaign: `python -m tests.campaign --help`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from campaign.kinds import KINDS  # noqa: E402
from campaign.watch import Record, State, run, try_again  # noqa: E402

SLICE = 60.0  # seconds of a kind, before the next one's turn; one alone has them all


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign",
        description="Tries seed after seed of each kind, and goes on where it stopped.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="kinds:\n"
        + "\n".join(f"  {name:16} {kind.what}" for name, kind in KINDS.items()),
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="of all kinds")
    parser.add_argument(
        "--kind", action="append", choices=KINDS, help="all, by default"
    )
    parser.add_argument("--seed", type=int, help="try this one alone, in this process")
    parser.add_argument(
        "--again", action="store_true", help="try what was found; forget what holds now"
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=TESTS.parent / "build" / "campaign.json",
        help="file that says how far each kind has come",
    )
    return parser


def _report(state: State) -> int:
    print(
        f"{'kind':16} {'seeds':>10} {'trials':>12} {'found':>6} {'seconds':>9} "
        f"{'grown, MiB':>11}"
    )
    for name, record in state.records.items():
        found = f"{len(record.found):6} {record.seconds:9,.0f} {record.grown:11.1f}"
        print(f"{name:16} {record.tried:10,} {record.trials:12,} {found}")
    for name, record in state.records.items():
        for one in record.found:
            last = one["error"].strip().rsplit("\n", 1)[-1][:120]
            print(f"{name} --seed {one['seed']}: {one['how']}: {last}")
    return 1 if any(record.found for record in state.records.values()) else 0


def main() -> int:
    """Run the command; 1 where something was found."""
    parser = _parser()
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    if options.seed is not None:
        if len(kinds) != 1:
            parser.error("--seed takes one --kind")
        KINDS[kinds[0]].load()(options.seed)
        print(f"{kinds[0]}: seed {options.seed} holds")
        return 0
    state = State(options.state)
    if options.again:
        for kind in kinds:
            try_again(KINDS[kind], state.records[kind])
        state.save()
        return _report(state)
    end = time.monotonic() + options.minutes * 60
    share = options.minutes * 60 / len(kinds)
    share = share if len(kinds) == 1 else min(SLICE, share)
    try:
        while (left := end - time.monotonic()) > 0.1:
            for kind in kinds[: max(1, round(left / share))]:
                record = state.records[kind]

                def notice(kind: str = kind, record: Record = record) -> None:
                    state.save()
                    found = f"{len(record.found)} found"
                    print(f"{kind}: {record.tried:,} tried, {found}", flush=True)

                run(KINDS[kind], record, share, notice=notice)
                notice()
    except KeyboardInterrupt:
        state.save()
    return _report(state)


if __name__ == "__main__":
    raise SystemExit(main())
