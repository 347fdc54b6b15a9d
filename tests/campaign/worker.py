# SPDX-License-Identifier: MIT
"""Tries seed after seed: `python -m campaign.worker MODULE FUNCTION FIRST`.

It says when it is ready. Each seed that held is a line with its number and the number
of its trials; a failure is a line of JSON. SIGUSR1 writes the stacks of all threads to
the standard error.
"""

from __future__ import annotations

import faulthandler
import importlib
import itertools
import json
import logging
import os
import signal
import sys
import traceback

import numpy as np
from _pytest.outcomes import OutcomeException


def main() -> None:
    """Go on until the pipe is closed or the process is ended."""
    module, function, first = sys.argv[1:]
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.disable(logging.WARNING)
    np.seterr(all="ignore")
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what trials print does not get between the lines
    trial = getattr(importlib.import_module(module), function)
    told.write("ready\n")
    for seed in itertools.count(int(first)):
        try:
            trials = trial(seed)
        except (Exception, OutcomeException) as error:
            text = "".join(traceback.format_exception(error))
            told.write(json.dumps({"seed": seed, "error": text}) + "\n")
        else:
            told.write(f"{seed} {1 if trials is None else int(trials)}\n")


if __name__ == "__main__":
    main()
