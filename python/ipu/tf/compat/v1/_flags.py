# SPDX-License-Identifier: MIT
"""``tf.flags`` where the package absl-py is not installed: words of the command line.

Flags are defined at the top of a program and read when the first of them is asked for:
``--name=value``, ``--name value``, and ``--name`` or ``--noname`` for a bool.

Example:
    >>> flags = FlagValues(["program", "--rate=0.5", "--noshuffle", "rest"])
    >>> flags.define("rate", 0.1, float, "how fast")
    >>> flags.define("shuffle", True, bool, "")
    >>> flags.rate, flags.shuffle, flags.unparsed
    (0.5, False, ['rest'])
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ipu._text.exports import defined
from ipu._text.suggestions import refuse_unknown

_TRUE, _FALSE = ("true", "t", "1", "yes"), ("false", "f", "0", "no")


def _bool(text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError("it is true or false")
    return text.lower() in _TRUE


class FlagValues:
    """The flags of a program, as attributes.

    Args:
        argv: The command line; None: that of the process.
    """

    def __init__(self, argv: Sequence[str] | None = None) -> None:
        self.__dict__.update(_argv=argv, _kinds={}, _texts={}, _values={}, _unread=True)
        self.__dict__.update(unparsed=[])

    def define(
        self, name: str, default: Any, kind: Callable[[str], Any], text: Any
    ) -> None:
        """Add a flag.

        Args:
            name: Its name.
            default: Its value where the command line has none.
            kind: Makes the value of a word; raises ValueError.
            text: Its meaning.
        """
        self._kinds[name] = _bool if kind is bool else kind
        self._texts[name] = f"--{name}: {text} (default: {default!r})"
        self._values.setdefault(name, default)
        self.__dict__["_unread"] = True

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Read a command line.

        Args:
            argv: The words, the program first.
            known_only: Whether words that are not flags are left alone.

        Returns:
            The program and the words that are left.

        Raises:
            SystemExit: ``--help``, an unknown flag or a wrong value.
        """
        self.__dict__["_unread"] = False
        words, rest = list(argv[1:]), []
        while words:
            word = words.pop(0)
            name, equals, value = word.lstrip("-").partition("=")
            if word == "--":
                rest += words
                break
            if word in ("--help", "-h", "--helpfull"):
                print("\n".join([argv[0], *sorted(self._texts.values())]))
                sys.exit(0)
            is_known = name in self._kinds
            if not word.startswith("-"):
                rest.append(word)
            elif name.startswith("no") and self._kinds.get(name[2:]) is _bool:
                self._values[name[2:]] = False
            elif not is_known and known_only:
                rest.append(word)
            elif name not in self._kinds:
                sys.exit(
                    f"FATAL Flags parsing error: Unknown command line flag {name!r}"
                )
            elif self._kinds[name] is _bool and not equals:
                self._values[name] = True
            else:
                if not equals:
                    value = words.pop(0) if words else ""
                self._read(name, value)
        self.__dict__["unparsed"] = rest
        return [argv[0], *rest]

    def _read(self, name: str, value: str) -> None:
        try:
            self._values[name] = self._kinds[name](value)
        except ValueError as error:
            sys.exit(
                f"FATAL Flags parsing error: flag --{name}={value}: {error}. "
                f"{self._texts[name]}"
            )

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("_values", {}):
            raise AttributeError(name)
        if self._unread:
            self(sys.argv if self._argv is None else self._argv, known_only=True)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __iter__(self) -> Any:
        return iter(self._values)

    def flag_values_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        return {name: getattr(self, name) for name in self._values}


FLAGS: Any = FlagValues()


# of absl's, without effect
_OPTIONS = (
    "case_sensitive",
    "flag_values",
    "lower_bound",
    "module_name",
    "required",
    "short_name",
    "upper_bound",
)


def _definer(kind: Callable[[str], Any]) -> Callable[..., None]:
    def define(name: str, default: Any, help: Any = "", **more: Any) -> None:
        refuse_unknown("DEFINE", more, _OPTIONS)
        FLAGS.define(name, default, kind, help)

    return define


DEFINE_string = _definer(str)
DEFINE_integer = _definer(lambda text: int(text, 0))
DEFINE_float = _definer(float)
DEFINE_bool = DEFINE_boolean = _definer(bool)
DEFINE_list = _definer(lambda text: text.split(",") if text else [])


def DEFINE_enum(
    name: str, default: Any, enum_values: Sequence[str], help: Any = "", **more: Any
) -> None:
    """Add a flag that is one of several words."""
    refuse_unknown("DEFINE_enum", more, _OPTIONS)

    def chosen(text: str) -> str:
        if text not in enum_values:
            raise ValueError(f"it is one of {', '.join(enum_values)}")
        return text

    FLAGS.define(name, default, chosen, help)


def mark_flag_as_required(flag_name: str, flag_values: Any = None) -> None:
    """Do nothing: a program asks for its flags itself."""


if not TYPE_CHECKING:
    __all__ = defined(__name__)
