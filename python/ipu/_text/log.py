# SPDX-License-Identifier: MIT
"""The logger named "ipu", with a line on stderr for programs that set up no logging.

Programs for the IPU expect to read which device was attached. So INFO is on from the
start, in notebooks WARNING, for there it is a red box under a cell; and while the root
logger has no handler our own one prints. Either
``logging.getLogger("ipu").setLevel(logging.WARNING)`` or a set-up of your own
silences it. ``logging`` itself is imported with the first message: it would be a
third of the time that ``import ipu`` takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

    logger: logging.Logger


def _make() -> logging.Logger:
    import logging

    from ipu._text.log_handler import StderrHandler
    from ipu._text.notebook import in_notebook

    made = logging.getLogger("ipu")
    if made.level == logging.NOTSET:
        made.setLevel(logging.WARNING if in_notebook() else logging.INFO)
    if not made.handlers:
        made.addHandler(StderrHandler())
    return made


class _Lazy:
    """Becomes the logger at the first use of any of its methods."""

    def __getattr__(self, name: str) -> Any:
        made = _make()
        self.__dict__[name] = value = getattr(made, name)
        return value


if not TYPE_CHECKING:
    logger = _Lazy()
