# SPDX-License-Identifier: MIT
"""``tf.train``: checkpoints; the messages that records hold, made by `protobuf`.

Field numbers are those of TensorFlow's ``core/example/example.proto`` and
``feature.proto``, so records go both ways.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ipu._text.exports import export
from ipu.tf._tensor.extras import extra

# message: its fields as (name, number, kind); a kind in capitals is a message
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "BytesList": [("value", 1, "bytes*")],
    "FloatList": [("value", 1, "float*")],
    "Int64List": [("value", 1, "int64*")],
    "Feature": [
        ("bytes_list", 1, "BytesList|"),
        ("float_list", 2, "FloatList|"),
        ("int64_list", 3, "Int64List|"),
    ],
    "Features": [("feature", 1, "Feature{}")],
    "Example": [("features", 1, "Features")],
    "FeatureList": [("feature", 1, "Feature*")],
    "FeatureLists": [("feature_list", 1, "FeatureList{}")],
    "SequenceExample": [
        ("context", 1, "Features"),
        ("feature_lists", 2, "FeatureLists"),
    ],
}
_PACKAGE = "ipu.train"

if TYPE_CHECKING:  # made when they are used
    BytesList: Any
    Example: Any
    Feature: Any
    FeatureList: Any
    FeatureLists: Any
    Features: Any
    FloatList: Any
    Int64List: Any
    SequenceExample: Any

    from ipu.tf.distribute.cluster_resolver import ClusterSpec as ClusterSpec
    from ipu.tf.io._checkpoint_files import (
        latest_checkpoint as latest_checkpoint,
        list_variables as list_variables,
        load_variable as load_variable,
    )
    from ipu.tf.io._checkpoints import (
        Checkpoint as Checkpoint,
        CheckpointManager as CheckpointManager,
    )


def _describe(message: Any, fields: list[tuple[str, int, str]]) -> None:
    """Fill in a message's descriptor. ``*`` is repeated, ``{}`` a map from strings,
    ``|`` one of the oneof `kind`."""
    for name, number, kind in fields:
        plain = kind.rstrip("*{}|")
        field = message.field.add(name=name, number=number)
        is_list = kind.endswith(("*", "{}"))
        field.label = field.LABEL_REPEATED if is_list else field.LABEL_OPTIONAL
        if kind.endswith("{}"):
            entry = message.nested_type.add(
                name=name.title().replace("_", "") + "Entry"
            )
            entry.options.map_entry = True
            _describe(entry, [("key", 1, "string"), ("value", 2, plain)])
            field.type = field.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
            continue
        if kind.endswith("|"):
            if not message.oneof_decl:
                message.oneof_decl.add(name="kind")
            field.oneof_index = 0
        if plain[0].isupper():
            field.type = field.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{plain}"
        else:
            field.type = getattr(field, f"TYPE_{plain.upper()}")


@functools.cache
def _classes() -> dict[str, Any]:
    """Return the classes of the messages."""
    what = "tf.train.Example"
    extra("google.protobuf", what, "records", "protobuf")
    pb2 = extra("google.protobuf.descriptor_pb2", what, "records", "protobuf")
    pools = extra("google.protobuf.descriptor_pool", what, "records", "protobuf")
    factory = extra("google.protobuf.message_factory", what, "records", "protobuf")
    file = pb2.FileDescriptorProto(
        name="ipu/example.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        _describe(file.message_type.add(name=name), fields)
    pool = pools.DescriptorPool()
    pool.Add(file)
    return {
        name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


def _class(name: str) -> Any:
    return _classes()[name]


_LAZY: dict[str, Any] = {name: functools.partial(_class, name) for name in _MESSAGES}
for _name in ("latest_checkpoint", "list_variables", "load_variable"):
    _LAZY[_name] = f"ipu.tf.io._checkpoint_files:{_name}"
_LAZY["ClusterSpec"] = "ipu.tf.distribute.cluster_resolver:ClusterSpec"
for _name in ("Checkpoint", "CheckpointManager"):
    _LAZY[_name] = f"ipu.tf.io._checkpoints:{_name}"
export(__name__, sorted(_LAZY), _LAZY)
