# SPDX-License-Identifier: MIT
"""Prints log records in TensorFlow's form: ``time: I file:line] message``."""

from __future__ import annotations

import logging
import sys
from datetime import datetime


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created)
        where = f"ipu/{record.filename}:{record.lineno}"
        head = f"{when:%Y-%m-%d %H:%M:%S.%f}: {record.levelname[:1]} {where}]"
        return f"{head} {record.getMessage()}"


class StderrHandler(logging.Handler):
    """Prints to whatever ``sys.stderr`` is now, if nobody else prints."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers or sys.stderr is None:
            return
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)
