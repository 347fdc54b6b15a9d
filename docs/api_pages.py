# SPDX-License-Identifier: MIT
"""Writes the pages of the API reference: one for each public module."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import ipu
from ipu._text import keras_3

INDEX = """API reference
=============

One page for each module, in the order in which a program meets them.

.. toctree::
   :maxdepth: 1

"""
FIRST = ["ipu", "ipu.config", "ipu.ipu_strategy", "ipu.keras", "ipu.tf"]


def public_names(module: ModuleType) -> list[str]:
    """The names that a module offers, as its ``__all__`` has them."""
    return list(getattr(module, "__all__", ()))


def public_modules(module: ModuleType, path: str) -> Iterator[tuple[str, ModuleType]]:
    """Every public module below one, with the path that programs write."""
    yield path, module
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.ismodule(value) and value.__name__.startswith("ipu."):
            yield from public_modules(value, f"{path}.{name}")


def write(folder: Path) -> None:
    """Write a page for each module of ``ipu`` to ``folder``, and their index.

    Args:
        folder: Where the pages go; made if it is not there. Pages that stay the same
            are not touched, so that a second build reads only what has changed.
    """
    homes: dict[int, str] = {}  # of an object: the page that describes it
    pages: dict[str, ModuleType] = {}
    for path, module in public_modules(ipu, "ipu"):
        if id(module) not in homes:
            homes[id(module)] = path
            pages[path] = module
    folder.mkdir(exist_ok=True)
    order = sorted(pages, key=lambda path: (path not in FIRST, path))
    described: dict[int, str] = {}
    texts = {path: page(path, pages[path], homes, described) for path in order}
    order.append("keras_3_names")
    texts["keras_3_names"] = names_of_keras_3()
    texts["index"] = INDEX + "".join(f"   {path}\n" for path in order)
    for path, text in texts.items():
        file = folder / f"{path}.rst"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    for file in folder.glob("*.rst"):
        if file.stem not in texts:
            file.unlink()


def names_of_keras_3() -> str:
    """The page of what Keras 3 has and is not there."""
    title = "Names of Keras 3 that are not there"
    parts = [title, "=" * len(title), ""]
    parts += ["Using one of them raises an error that says the same.", ""]
    parts += [".. list-table::", "   :header-rows: 1", ""]
    parts += ["   * - names", "     - why", "     - what to use"]
    for row in keras_3.ABSENT:
        place = f"keras.{row.module}".rstrip(".")
        names = ", ".join(f"``{place}.{name}``" for name in row.names.split())
        parts += [f"   * - {names}", f"     - {row.topic}", f"     - {row.instead}"]
    return "\n".join([*parts, ""])


def page(
    path: str, module: ModuleType, homes: dict[int, str], described: dict[int, str]
) -> str:
    """The page of one module, as reStructuredText.

    Args:
        path: What programs write, as ``ipu.tf.math``.
        module: The module itself.
        homes: The page of each module, by the module's ``id``.
        described: Where each object is described already, by its ``id``; the objects
            of this page are added.
    """
    parts = [path, "=" * len(path), "", f".. automodule:: {module.__name__}", ""]
    modules, elsewhere = [], []
    for name, value in named_objects(module):
        whole = f"{path}.{name}"
        if id(value) in homes:
            modules.append(homes[id(value)])
        elif not (inspect.isclass(value) or callable(value)):
            parts += [f".. py:data:: {whole}", "", f"   {text_of(value)}", ""]
        elif id(value) in described:
            elsewhere.append(f"* ``{name}``: :py:obj:`{described[id(value)]}`")
        else:
            described[id(value)] = whole
            parts += directive(whole, value)
    if elsewhere:
        parts += ["Described elsewhere:", "", *elsewhere, ""]
    if modules:
        parts += [".. rubric:: Modules", ""]
        parts += [f"* :doc:`{target}`" for target in modules] + [""]
    return "\n".join(parts)


def named_objects(module: ModuleType) -> list[tuple[str, Any]]:
    """What a module offers by name; second names of an object come last."""
    found = [(name, getattr(module, name)) for name in public_names(module)]

    def second_names_last(item: tuple[str, Any]) -> tuple[bool, str]:
        name, value = item
        return getattr(value, "__name__", name) != name, name

    return sorted(found, key=second_names_last)


def directive(path: str, value: Any) -> list[str]:
    """What makes Sphinx describe a class or a function."""
    if inspect.isclass(value):
        return [f".. autoclass:: {path}", "   :members:", ""]
    return [f".. autofunction:: {path}", ""]


def text_of(value: Any) -> str:
    """A constant, or a module that is not ours, as a page shows it."""
    return f"``{value.__name__ if inspect.ismodule(value) else repr(value)}``"
