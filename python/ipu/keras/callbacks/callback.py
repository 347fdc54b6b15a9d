# SPDX-License-Identifier: MIT
"""``Callback``, and the list of callbacks that a run of a model calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ipu._text.arguments import checked_list

__all__ = ["Callback", "CallbackList"]

Logs = dict[str, Any]
Hook = TypeVar("Hook", bound=Callable[..., Any])


def looks(when: Callable[[Any], int | None]) -> Callable[[Hook], Hook]:
    """Mark a hook of batches that need not be called for each of them.

    Where nobody said how many steps an execution has, it ends where a callback looks at
    its batch. A hook without this mark looks at every one.

    Args:
        when: Takes the callback; gives after how many more steps the hook has something
            to do, or None: never at a given one.
    """

    def mark(hook: Hook) -> Hook:
        hook._looks = when  # type: ignore[attr-defined]
        return hook

    return mark


def _never(_: Any) -> int | None:
    return None


class Callback:
    """Base class of callbacks: every hook does nothing.

    Attributes:
        model: The model, set before training.
        params: ``verbose``, ``epochs`` and ``steps`` of the run.

    Batch hooks are called once for each execution of ``steps_per_execution`` steps:
    the begin hook with the number of its first step, the end hook with that of its
    last. With ``"auto"``, which is the default outside of a strategy, that is once for
    each batch.

    Example:
        >>> class Count(Callback):
        ...     def on_epoch_end(self, epoch, logs=None):
        ...         self.epochs = epoch + 1
        ...
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> count = Count()
        >>> x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
        >>> history = model.fit(x, y, epochs=4, callbacks=[count], verbose=0)
        >>> count.epochs
        4
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] | None = None
        self.validation_data: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Take the parameters of the run."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Take the model."""
        self.model = model

    @looks(_never)
    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Do the same as ``on_train_batch_begin``, its newer name."""

    @looks(_never)
    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Do the same as ``on_train_batch_end``, its newer name."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Called at the start of an epoch."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Called at the end of an epoch, with its results and ``val_`` ones."""

    @looks(_never)
    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before an execution in ``fit``."""
        self.on_batch_begin(batch, logs=logs)

    @looks(_never)
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after an execution in ``fit``, with the metrics so far."""
        self.on_batch_end(batch, logs=logs)

    @looks(_never)
    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before an execution in ``evaluate``, also within ``fit``."""

    @looks(_never)
    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after an execution in ``evaluate``, also within ``fit``."""

    @looks(_never)
    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before an execution in ``predict``."""

    @looks(_never)
    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after an execution in ``predict``."""

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Called at the start of ``fit``."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Called at the end of ``fit``."""

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Called at the start of ``evaluate``."""

    def on_test_end(self, logs: Logs | None = None) -> None:
        """Called at the end of ``evaluate``."""

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """Called at the start of ``predict``."""

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """Called at the end of ``predict``."""


# hooks that objects without the base class may offer under an old name
_OLD_NAMES = {
    "on_train_batch_begin": "on_batch_begin",
    "on_train_batch_end": "on_batch_end",
}


class CallbackList:
    """Calls the hooks of several callbacks; any object with some of the hooks will do.

    Args:
        callbacks: A callback, or several in order; None: none.
        add_history: Whether a ``History`` is put to them, where there is none.
        add_progbar: Whether a ``ProgbarLogger`` is, where there is none.
        model: The model, or None.
        **params: ``verbose``, ``epochs`` and ``steps`` of the run.

    Example:
        >>> seen = []
        >>> epochs = Callback()
        >>> epochs.on_epoch_end = lambda epoch, logs: seen.append(epoch)
        >>> CallbackList([epochs], epochs=1).on_epoch_end(0)
        >>> seen
        [0]
    """

    def __init__(
        self,
        callbacks: Any = None,
        add_history: bool = False,
        add_progbar: bool = False,
        model: Any = None,
        **params: Any,
    ) -> None:
        from ipu.keras.callbacks.history import History
        from ipu.keras.callbacks.progbar import ProgbarLogger

        given = [callbacks] if isinstance(callbacks, Callback) else callbacks or ()
        self.callbacks = list(checked_list("callbacks", given))
        for kind, is_wanted in ((ProgbarLogger, add_progbar), (History, add_history)):
            if is_wanted and not any(isinstance(one, kind) for one in self.callbacks):
                self.callbacks.append(kind())
        self.model = model
        self.params = dict(params)
        self._found: dict[str, list[Callable[..., Any]]] = {}
        self._looking: dict[str, list[tuple[Callable[[Any], int | None], Any]]] = {}
        for callback in self.callbacks:
            if hasattr(callback, "set_params"):
                callback.set_params(dict(params))
            if model is not None and hasattr(callback, "set_model"):
                callback.set_model(model)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        counts = name.endswith(("epoch_begin", "epoch_end", "batch_begin", "batch_end"))

        def hook(*args: Any, logs: Any = None) -> None:
            given = args if len(args) > counts else (*args, logs or {})
            self.call(name, *given)

        return hook

    def append(self, callback: Any) -> None:
        """Put another callback after the others."""
        self.callbacks.append(callback)
        self._found.clear()
        self._looking.clear()

    def call(self, hook: str, *args: Any) -> None:
        """Call a hook of every callback that has it.

        Args:
            hook: The name, for example ``on_epoch_end``.
            *args: Its arguments; the last is the logs.
        """
        functions = self._found.get(hook)
        if functions is None:
            functions = self._found[hook] = [
                function
                for function in (self._hook(cb, hook) for cb in self.callbacks)
                if function is not None
            ]
        for function in functions:
            function(*args)

    @staticmethod
    def _hook(callback: Any, hook: str) -> Callable[..., Any] | None:
        function = getattr(callback, hook, None)
        if function is None and hook in _OLD_NAMES:
            function = getattr(callback, _OLD_NAMES[hook], None)
        return function

    def steps_to_look(self, mode: str) -> int | None:
        """Return after how many steps a callback looks at its batch; None: it is not
        known.

        Args:
            mode: ``"train"``, ``"test"`` or ``"predict"``.
        """
        found = self._looking.get(mode)
        if found is None:
            names = [f"on_{mode}_batch_begin", f"on_{mode}_batch_end"]
            if mode == "train":
                names += _OLD_NAMES.values()
            found = self._looking[mode] = [
                (getattr(getattr(callback, name), "_looks", lambda _: 1), callback)
                for callback in self.callbacks
                for name in names
                if hasattr(callback, name)
            ]
        steps = [when(callback) for when, callback in found]
        return min((s for s in steps if s is not None), default=None)

    def set_steps(self, steps: int | None) -> None:
        """Tell how many steps an epoch has, where that was not known before."""
        if self.params.get("steps") == steps:
            return
        self.params["steps"] = steps
        for callback in self.callbacks:
            if hasattr(callback, "set_params"):
                callback.set_params(dict(self.params))

    def watchers(self) -> list[Any]:
        """Return the callbacks that want to know of steps while they are executed."""
        return [cb for cb in self.callbacks if hasattr(cb, "_on_steps_executed")]

    def recorders(self) -> list[Any]:
        """Return the callbacks that want to know when actions of a pipeline ran."""
        return [cb for cb in self.callbacks if hasattr(cb, "_on_recorded")]

    def keep_steps(self, results: dict[str, Any]) -> None:
        """Hand the values of every step of an execution to those who keep them."""
        for callback in self.callbacks:
            keep = getattr(callback, "_keep_steps", None)
            if keep is not None:
                keep(results)
