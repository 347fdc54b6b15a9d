# SPDX-License-Identifier: MIT
"""``Model``: a layer that can be compiled, trained, evaluated, saved and shown."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.suggestions import refuse_unknown
from ipu._text.tracebacks import boundaries
from ipu.keras._files.fitting import Rule
from ipu.keras._names import nearest
from ipu.keras._types import Nest
from ipu.keras.engine.base_layer import Layer, unique
from ipu.keras.engine.files import model_config, saving, summary, weights_file
from ipu.keras.engine.layer.call_arguments import map_shapes
from ipu.keras.engine.pipelines.calls import ModelGraph
from ipu.keras.engine.pipelines.pipeline_stage import count_entries
from ipu.keras.engine.pipelines.trace import open_batch, traced_graph
from ipu.keras.engine.training.text_calls import TextCalls, text_specs
from ipu.keras.engine.training.trainer import Trainer
from ipu.tf._functions import function
from ipu.tf.dtypes import NARROW

if TYPE_CHECKING:
    from typing_extensions import Self

_SAVED_OPTIONS = ("options", "save_traces", "signatures")  # of Keras, without effect


@boundaries("get_layer", "save", "save_weights", "load_weights", "summary")
class Model(Trainer):
    """A network that can be trained on the device.

    Made of symbolic values, ``Model(inputs, outputs)``, or by a subclass that makes its
    layers in ``__init__`` and calls them in ``call``.

    Args:
        *args: ``inputs, outputs`` of the functional form.
        **kwargs: ``inputs``, ``outputs``, ``name``, ``trainable``.

    Source: ``tf.keras.Model`` of Keras 2.6 with the IPU extensions of SDK 2.2 to 3.4.

    Example:
        >>> inputs = keras.Input((4,))
        >>> model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
        >>> model.compile("sgd", "mse")
        >>> x, y = np.zeros((8, 4)), np.ones((8, 2))
        >>> history = model.fit(x, y, epochs=3, verbose=0)
        >>> model.predict(x).shape
        (8, 2)
    """

    _also_takes = ("inputs", "outputs")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Give a functional model where inputs and outputs are given."""
        kind: Any = cls
        if cls is Model and _is_functional(args, kwargs):
            from ipu.keras.engine.functional import Functional

            kind = Functional
        made: Self = super().__new__(kind, *args, **kwargs)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if _is_functional(args, kwargs):
            self._become_functional(args, kwargs)
            return
        if args and args != (self,):  # some programs give the base class the model
            raise TypeError(
                f"{type(self).__name__}() takes `inputs` and `outputs`, or keyword "
                f"arguments only. Received: {len(args)} positional argument(s)."
            )
        super().__init__(**kwargs)
        self._init_trainer()
        self._called_on: Nest = None  # specs of the inputs of the first call
        self._stage_graphs: dict[bool | None, ModelGraph] = {}
        self._untraceable: Exception | None = None  # why there is no graph

    def _become_functional(self, args: Any, kwargs: dict[str, Any]) -> None:
        """Be functional too: a subclass gave ``super().__init__`` inputs, outputs."""
        from ipu.keras.engine.functional import Functional

        kind: Any = type(self)
        if not issubclass(kind, Functional):
            self.__class__ = _functional_kind(kind)
        Functional.__init__(self, *args, **kwargs)  # type: ignore[arg-type]

    def build(self, input_shape: Any = None) -> None:
        """Create the weights for inputs of a shape.

        Args:
            input_shape: A shape with the batch, or a nest of shapes; open sizes count
                as 1.
        """
        if not self.built and input_shape is not None:
            self._build_from(input_shape)

    def _note_built(self, given: Mapping[str, Nest]) -> None:
        if self.built:  # it is not by a `build` that was given no shape
            super()._note_built(given)

    def get_build_config(self) -> dict[str, Any] | None:
        """Return shapes and dtypes of the inputs that the model was first called on.

        Returns:
            A dict that ``build_from_config`` takes; None for a model that is not built.

        Example:
            >>> class Twice(keras.Model):
            ...     def call(self, x):
            ...         return x * 2
            >>> model = Twice()
            >>> model.get_build_config() is None
            True
            >>> _ = model(tf.ones((4, 3)))
            >>> model.get_build_config()
            {'input_shape': [None, 3], 'dtypes': ['float32']}
        """
        if self._called_on is None:
            return super().get_build_config()
        names = [spec.dtype.name for spec in tf.nest.flatten(self._called_on)]
        return {
            "input_shape": tf.nest.map_structure(
                lambda spec: list(spec.shape), self._called_on
            ),
            "dtypes": [NARROW.get(name, name) for name in names],
        }

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        """Create the weights with what ``get_build_config`` returned.

        Args:
            config: With ``"input_shape"``, and ``"dtypes"`` where not all of the inputs
                are float32; a file of Keras has no dtypes.
        """
        if "dtypes" in config:
            self._build_from(config["input_shape"], config["dtypes"])
        else:
            super().build_from_config(config)

    def _build_from(self, shapes: Any, dtypes: Sequence[Any] = ()) -> None:
        """Create the weights for inputs of shapes, of float32 or of other dtypes."""

        def spec(shape: Any) -> Any:
            sizes = tuple(1 if size is None else int(size) for size in shape)
            return tf.TensorSpec(sizes, "float32")

        specs = map_shapes(spec, shapes)
        if dtypes:
            flat = zip(tf.nest.flatten(specs), dtypes, strict=True)
            made = [tf.TensorSpec(one.shape, dtype) for one, dtype in flat]
            specs = tf.nest.pack_sequence_as(specs, made)
        self.built = True
        function.scratch_trace(
            lambda x: self(x, training=False), [specs], may_create=True
        )

    def _maybe_build(self, inputs: Nest) -> None:
        if self._called_on is None:
            self._called_on = tf.nest.map_structure(open_batch, inputs)
        if type(self).build is Model.build:
            self.built = True  # the call that follows builds the layers inside
        else:
            super()._maybe_build(inputs)

    # --- pipeline stages --------------------------------------------------------------

    @property
    def _can_have_stages(self) -> bool:
        if self._called_on is None:
            return False
        if self._untraceable is None and not self._stage_graphs:
            try:
                self._stage_graph()
            except Exception as error:
                self._untraceable = error
        return self._untraceable is None

    def _why_no_calls(self) -> str:
        if self._untraceable is not None:
            return f"its `call` does not run on symbolic values. {self._untraceable}"
        return (
            "it is a subclass of Model that has not been called yet. Call it on data, "
            "or build(input_shape), first."
        )

    def _concrete_call(self, *args: Any, **kwargs: Any) -> Any:
        calls = self._text_calls
        if calls is not None and args and calls.has_run(args[0]):
            given = args[1] if len(args) > 1 else kwargs.get("training")
            training = self._default_training(None) if given is None else given
            return calls(args[0], training)
        before = count_entries()
        result = super()._concrete_call(*args, **kwargs)
        if count_entries() != before:
            self._enters_stages = True
        return result

    # --- texts ------------------------------------------------------------------------

    _text_calls: TextCalls | None = None

    def _fed(self, data: Any) -> Any:
        specs = text_specs(data)
        if specs is None:
            return data
        calls = self._text_calls
        if calls is None or not calls.fits(self, specs):
            with self._scope():
                calls = TextCalls(self, specs)
            self.__dict__["_text_calls"] = calls  # no attribute that `call` reads
        return calls.host._fed(data)

    def _stage_graph(self, training: bool | None = None) -> ModelGraph:
        """Return the calls in ``call``, which is run on symbolic values once for each
        mode."""
        if training not in self._stage_graphs:
            self._stage_graphs[training] = traced_graph(self, self._called_on, training)
        return self._stage_graphs[training]

    # --- layers and weights -----------------------------------------------------------

    if TYPE_CHECKING:  # a subclass has any parameters

        def call(self, *args: Any, **kwargs: Any) -> Any: ...
    else:

        def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            """Compute the model's result; a subclass defines it.

            Raises:
                NotImplementedError: It does not.
            """
            raise NotImplementedError(
                f"{type(self).__name__} must define call(self, inputs)."
            )

    @property
    def layers(self) -> list[Layer]:
        """The layers that attributes hold."""
        return self._sublayers()

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """Return a layer by its name or its place.

        Args:
            name: The name.
            index: The place in ``layers``.

        Raises:
            ValueError: There is none, or not one of the arguments is given.
        """
        if (name is None) == (index is None):
            raise ValueError(
                "Provide either a layer name or layer index. "
                f"Received: index={index}, name={name}."
            )
        if index is not None:
            if not -len(self.layers) <= index < len(self.layers):
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model only has "
                    f"{len(self.layers)} layers."
                )
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        names = [layer.name for layer in self.layers]
        hint = nearest(str(name), names)
        raise ValueError(
            f"No such layer: {name}. Existing layers are: "
            f"{names}.{hint if 'Did you mean' in hint else ''}"
        )

    def _assert_weights_created(self) -> None:
        if not self.built:
            raise ValueError(
                f"Weights for model {self.name} have not yet been created. Weights are "
                "created when the Model is first called on inputs or `build()` is "
                "called with an `input_shape`."
            )

    @property
    def weights(self) -> list[tf.Variable]:
        """All variables, layer by layer as Keras lists them; before it is built those
        that there are.

        Raises:
            ValueError: The model is not built, and its class has a ``build`` of its
                own, as ``Sequential`` has.
        """
        if "build" in type(self).__dict__:
            self._assert_weights_created()
        own = self._own_variables()
        return unique(
            [
                *(v for group in self._tracked() for v in _of_group(group, None)),
                *(v for v in own if v.trainable),
                *(v for v in own if not v.trainable),
            ]
        )

    @property
    def trainable_weights(self) -> list[tf.Variable]:
        """The variables that an optimizer changes: own ones come last."""
        if not self.trainable:
            return []
        own = [v for v in self._own_variables() if v.trainable]
        found = [v for group in self._tracked() for v in _of_group(group, True)]
        return unique(found + own)

    @property
    def non_trainable_weights(self) -> list[tf.Variable]:
        """The variables that it does not."""
        groups, own = self._tracked(), self._own_variables()
        found = [v for group in groups for v in _of_group(group, False)]
        found += [v for v in own if not v.trainable]
        if self.trainable:
            return unique(found)
        fixed = [v for group in groups for v in _of_group(group, True)]
        return unique(fixed + [v for v in own if v.trainable] + found)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make a model from what ``get_config`` gave, with new weights.

        Args:
            config: The configuration; where it is that of a network of layers, that
                network is made.
            custom_objects: A user's own layers and functions by name.
        """
        if {"input_layers", "layers", "output_layers"} <= set(config):
            from ipu.keras.engine.functional import Functional

            own: Any = cls
            takes_network = own is not Model and Functional._takes_network(own)
            kind = _functional_kind(own) if takes_network else Functional
            return kind._from_network(config, custom_objects)
        if "layers" in config and cls is Model:
            from ipu.keras.engine.sequential import Sequential

            return Sequential.from_config(config, custom_objects)
        return cls._from_arguments(config)

    def to_json(self, **kwargs: Any) -> str:
        """Return the configuration as JSON, for ``models.model_from_json``.

        Args:
            **kwargs: The keywords of ``json.dumps``.

        Raises:
            NotImplementedError: The model is of a class that a user wrote, without
                ``get_config``, and was made with more than plain data.
            TypeError: A layer's configuration is not plain data.
        """
        return model_config.to_json(self, **kwargs)

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "ipu",
        verbose: bool = True,
        input_signature: Any = None,
    ) -> None:
        """Write the model to a folder that runs without its code.

        ``ipu.serving.load(filepath)`` makes a function of it, also under the name
        ``serve``, which takes batches of any size. Other programs find the weights in
        ``weights.safetensors``.

        Args:
            filepath: The folder; what was exported there is replaced.
            format: ``"ipu"`` alone.
            verbose: Whether the inputs and outputs are printed.
            input_signature: A nest of ``tf.TensorSpec`` or ``keras.InputSpec`` of the
                inputs; None: those that the model knows.

        Raises:
            ValueError: Another format; the inputs are not known, not of numbers or have
                an open size beside that of the batch; the folder has other files.

        Example:
            >>> import tempfile
            >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.export(folder, verbose=False)
            ...     served = ipu.serving.load(folder)
            >>> served.serve(np.ones((5, 3))).shape
            (5, 1)
        """
        from ipu.serving import _export_model

        if format != "ipu":
            raise ValueError(
                "Model.export writes the format of ipu.serving alone. Received: "
                f"format={format!r}. For another format save the model as a .keras "
                "file, and let Keras load and export it."
            )
        with self._scope():
            runner = _export_model(self, filepath, input_signature)
        if verbose:
            print(
                f"Saved artifact at {os.fspath(filepath)!r}. ipu.serving.load makes a "
                "function of it:"
            )
            for what, specs in (("takes", runner.inputs), ("gives", runner.outputs)):
                for spec in specs:
                    print(f"  {what} {spec.name}: {spec.dtype.name} {spec.shape}")

    def save(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        include_optimizer: bool = True,
        save_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write the whole model to one file, for ``load_model``.

        The path's suffix says the format. ``.safetensors``: the package's own, with the
        weights under their names, so ``load_weights`` and other programs read it too;
        the optimizer's under ``optimizer:`` and their names; and in its metadata the
        configurations of the model and of its training, as JSON. ``.keras``: the
        archive of Keras 3, for layers that Keras 3 has. ``.h5``: the file of Keras 2.
        The last two need the extra ``ipu[h5]``.

        Args:
            filepath: The file; ``.safetensors`` is added where it does not end so.
                Folders are made.
            overwrite: Whether an existing file is replaced.
            include_optimizer: Whether the optimizer's state is written.
            save_format: ``"safetensors"``, ``"keras"`` or ``"h5"``, whatever the path
                ends in; None leaves it to the suffix.
            **kwargs: ``signatures``, ``options`` and ``save_traces`` of Keras, without
                effect.

        Raises:
            FileExistsError: There is a file and ``overwrite`` is False.
            ImportError: The format needs h5py.
            NotImplementedError: The model is a subclass without ``get_config``, or the
                format is the SavedModel of TensorFlow.
            ValueError: The suffix is another format's, or a layer is not in Keras 3.
        """
        others = (*inspect.signature(Model.save).parameters, *_SAVED_OPTIONS)
        refuse_unknown("save", kwargs, others)
        saving.save(self, filepath, overwrite, include_optimizer, save_format)

    def save_weights(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        save_format: str | None = None,
        options: Any = None,
    ) -> None:
        """Write all weights to a file, whole or not at all.

        Args:
            filepath: The file: ``.safetensors``, which is added where there is no
                suffix, ``.weights.h5`` of Keras 3 or ``.h5`` of Keras 2. Folders are
                made.
            overwrite: Whether an existing file is replaced.
            save_format: ``"safetensors"`` or ``"h5"``; None leaves it to the suffix.
            options: Ignored.

        Raises:
            FileExistsError: There is a file and ``overwrite`` is False.
            ImportError: The format needs h5py.
            ValueError: The model is not built, or the suffix is another format's.
        """
        del options
        saving.save_weights(self, filepath, overwrite, save_format)

    def load_weights(
        self,
        filepath: str | os.PathLike[str],
        by_name: bool = False,
        skip_mismatch: bool = False,
        options: Any = None,
    ) -> weights_file.LoadStatus:
        """Read weights from a file of any format that ``save`` and Keras write.

        Args:
            filepath: The file.
            by_name: Whether layers get the weights of the layer of their name, and
                those whose name is not in the file stay as they are.
            skip_mismatch: Whether layers whose weights are other ones in the file, or
                not there, stay as they are, with a warning that lists them.
            options: Ignored.

        Returns:
            An object with the methods that programs for TensorFlow call.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: It is damaged or of another model, and the message lists what
                differs; then nothing is changed.

        Example:
            >>> layers = keras.layers
            >>> path = "base.weights.h5"
            >>> base = [keras.Input((4,)), layers.Dense(8, name="base")]
            >>> keras.Sequential([*base, layers.Dense(3)]).save_weights(path)
            >>> base = [keras.Input((4,)), layers.Dense(8, name="base")]
            >>> model = keras.Sequential([*base, layers.Dense(2, name="head")])
            >>> _ = model.load_weights(path, by_name=True)  # the head stays new
        """
        del options
        saving.load_weights(self, filepath, Rule(bool(by_name), bool(skip_mismatch)))
        return weights_file.LoadStatus()

    def get_compile_config(self) -> dict[str, Any] | None:
        """Return what ``compile`` was told, as plain data; None before it was
        called."""
        return saving._training_config(self)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Call ``compile`` with what ``get_compile_config`` gave.

        Args:
            config: The plain data, of this model or another.
        """
        self.compile(**saving._arguments(config))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle, and copy, the model as ``save`` and ``load_model`` would."""
        return saving.unpickled, saving.pickled(self)

    # --- showing ----------------------------------------------------------------------

    def summary(
        self,
        line_length: int | None = None,
        positions: Any = None,
        print_fn: Callable[[str], Any] | None = None,
        expand_nested: bool = False,
        show_trainable: bool = False,
        layer_range: Any = None,
    ) -> None:
        """Print a table of the layers.

        Args:
            line_length: The width; None for as much as is needed.
            positions: Where columns end, as parts of the width.
            print_fn: Gets each line; ``print`` by default.
            expand_nested: Whether layers of inner models are listed too.
            show_trainable: Whether a column says if layers are trained: Y, N, or a
                dash where there are no weights.
            layer_range: Patterns of the names of the first and the last layer listed.

        Raises:
            ValueError: The model is not built, or no layer has such a name.
        """
        shown = (expand_nested, show_trainable, layer_range)
        for line in summary.lines(self, line_length, positions, *shown):
            (print_fn or print)(line)

    def _repr_html_(self) -> str:
        return summary.as_html(self)


@functools.cache
def _functional_kind(kind: Any) -> Any:
    """Return a user's class of models as one that is functional, too."""
    from ipu.keras.engine.functional import Functional

    place = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind, Functional), {**place, "_written": kind})


def _is_functional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return (
        len(args) == 2
        or (len(args) == 1 and "outputs" in kwargs)
        or ("inputs" in kwargs and "outputs" in kwargs)
    )


def _of_group(group: list[Any], is_trainable: bool | None) -> list[Any]:
    """Return the variables of what one attribute holds: the trainable ones, the others,
    or with None those and then these."""
    if is_trainable is None:
        if len(group) == 1 and not isinstance(group[0], tf.Variable):
            return list(group[0].variables)
        return [*_of_group(group, True), *_of_group(group, False)]
    name = "trainable_variables" if is_trainable else "non_trainable_variables"
    variables = [m for m in group if isinstance(m, tf.Variable)]
    holders = [m for m in group if not isinstance(m, tf.Variable)]
    return [
        *(v for holder in holders for v in getattr(holder, name)),
        *(v for v in variables if v.trainable is is_trainable),
    ]
