# SPDX-License-Identifier: MIT
"""``tf.compat.v1.logging``: the logger "tensorflow" under its old functions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ipu._text.exports import offered

DEBUG, INFO, WARN = logging.DEBUG, logging.INFO, logging.WARNING
ERROR, FATAL = logging.ERROR, logging.FATAL

_logger = logging.getLogger("tensorflow")
debug, info, error = _logger.debug, _logger.info, _logger.error
warning = warn = _logger.warning
fatal, log = _logger.critical, _logger.log
_counts: dict[str, int] = {}


def get_logger() -> logging.Logger:
    """Return the logger."""
    return _logger


def get_verbosity() -> int:
    """Return the level from which messages are shown."""
    return _logger.getEffectiveLevel()


def set_verbosity(v: int) -> None:
    """Show messages from this level on."""
    _logger.setLevel(v)


def vlog(level: int, msg: str, *args: Any) -> None:
    """Log with a level of your own."""
    _logger.log(level, msg, *args)


def log_if(level: int, msg: str, condition: bool, *args: Any) -> None:
    """Log where the condition holds."""
    if condition:
        _logger.log(level, msg, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first ``n`` times that this message comes."""
    count = _counts[msg] = _counts.get(msg, 0) + 1
    log_if(level, msg, count <= n, *args)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log one in ``n`` of the times that this message comes."""
    count = _counts.get(msg, 0)
    _counts[msg] = count + 1
    log_if(level, msg, count % n == 0, *args)


def flush() -> None:
    """Write out what is buffered."""
    for handler in _logger.handlers:
        handler.flush()


def TaskLevelStatusMessage(msg: str) -> None:
    """Log an error."""
    _logger.error(msg)


if not TYPE_CHECKING:
    __all__ = offered(__name__)
