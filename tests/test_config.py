# SPDX-License-Identifier: MIT
"""`ipu.config`, the simulated devices, TF_POPLAR_FLAGS and `ipu.utils`."""

import copy
import json
import pickle

import pytest
from fresh_config import (  # noqa: F401 - fixtures
    NEVER,
    PRE_COMPILE,
    PROCESS,
    fresh,
    with_option,
)

from ipu import config, utils
from ipu._device import devices
from ipu.config import IPUConfig, SelectionOrder, StochasticRoundingBehaviour

DEFAULTS = {
    "allow_recompute": False,
    "selection_order": 0,
    "serialization_output_folder": "",
    "compilation_poplar_options": {},
    "gcl_poplar_options": {},
    "auto_select_ipus": [],
    "select_ipus": [],
    "convolutions.poplar_options": {},
    "device_connection.type": 0,
    "device_connection.version": "",
    "device_connection.enable_remote_buffers": False,
    "slices.poplar_options": {},
    "experimental.always_rearrange_copies_on_the_host": False,
    "experimental.enable_remote_buffer_embedding": False,
    "experimental.enable_prng_stability": False,
    "experimental.multi_replica_distribution.process_index": 0,
    "experimental.multi_replica_distribution.process_count": 0,
    "floating_point_behaviour.inv": False,
    "floating_point_behaviour.div0": False,
    "floating_point_behaviour.oflo": False,
    "floating_point_behaviour.esr": 0,
    "floating_point_behaviour.nanoo": False,
    "floating_point_behaviour.set_all": False,
    "io_tiles.num_io_tiles": 0,
    "io_tiles.place_ops_on_io_tiles": False,
    "io_tiles.available_memory_proportion": 0.9,
    "ipu_model.compile_ipu_code": True,
    "ipu_model.enforce_memory": False,
    "ipu_model.tiles_per_ipu": 0,
    "ipu_model.version": "ipu2",
    "matmuls.clear_pass_type": False,
    "matmuls.poplar_options": {},
    "matmuls.same_bits_on_every_cpu": False,
    "norms.use_stable_statistics": False,
    "norms.experimental.distributed_batch_norm_replica_group_size": 1,
    "optimizations.math.fast": False,
    "optimizations.math.dot_strength": True,
    "optimizations.prefetch_data_streams": True,
    "optimizations.combine_embedding_lookups": False,
    "optimizations.combine_matmuls": False,
    "optimizations.enable_graph_outlining": True,
    "optimizations.merge_infeed_io_copies": True,
    "optimizations.maximum_cross_replica_sum_buffer_size": 0,
    "optimizations.maximum_reduce_scatter_buffer_size": 0,
    "optimizations.maximum_inter_ipu_copies_buffer_size": 0,
    "optimizations.maximum_send_recv_cluster_size": 0,
    "optimizations.maximum_reduce_many_buffer_size": 0,
    "optimizations.maximum_all_gather_buffer_size": 0,
    "optimizations.minimum_remote_tensor_size": 128,
    "optimizations.merge_remote_buffers": 2,
    "optimizations.enable_gather_simplifier": True,
    "optimizations.triangular_solve_expander_block_size": 0,
    "optimizations.cholesky_block_size": 0,
    "optimizations.enable_fast_math": False,
    "optimizations.enable_dynamic_slice_replacement": True,
    "pooling.poplar_options": {},
    "scheduling.algorithm": 0,
    "scheduling.maximum_scheduler_lookahead_depth": 5,
    "scheduling.maximum_scheduler_search_space_size": 64,
}


def test_the_whole_tree_with_its_defaults():
    assert IPUConfig().to_dict() == DEFAULTS


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_option_is_described_typed_and_settable(name):
    cfg = IPUConfig()
    metadata = cfg.get_attribute_metadata(name)
    assert metadata.name == name
    assert metadata.__doc__
    parent, _, last = name.rpartition(".")
    owner = cfg
    for part in parent.split(".") if parent else ():
        owner = getattr(owner, part)
    setattr(owner, last, metadata.default)
    assert getattr(owner, last) == metadata.default
    with pytest.raises(TypeError, match=rf"Trying to set {name} to .* of type"):
        setattr(owner, last, object())
    metadata.check_type(metadata.default)
    assert owner.get_attribute_metadata(last).name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_select_ipus", True),
        ("auto_select_ipus", [1, True]),
        ("auto_select_ipus", (1, 2.0)),
        ("auto_select_ipus", "1"),
        ("allow_recompute", 1),
        ("selection_order", 1),
        ("serialization_output_folder", None),
        ("compilation_poplar_options", []),
    ],
)
def test_types_are_exact(name, value):
    cfg = IPUConfig()
    before = getattr(cfg, name)
    with pytest.raises(TypeError, match="but it must be of type"):
        setattr(cfg, name, value)
    assert getattr(cfg, name) == before


def test_types_in_categories_are_exact():
    cfg = IPUConfig()
    with pytest.raises(TypeError, match=r"io_tiles\.num_io_tiles to True"):
        cfg.io_tiles.num_io_tiles = True
    with pytest.raises(TypeError, match="available_memory_proportion"):
        cfg.io_tiles.available_memory_proportion = 1
    with pytest.raises(TypeError, match="StochasticRoundingBehaviour"):
        cfg.floating_point_behaviour.esr = True


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("auto_select_ipu", "auto_select_ipus"),
        ("num_io_tiles", "io_tiles.num_io_tiles"),
        ("ipu_modle", "ipu_model"),
        ("process_cuont", "experimental.multi_replica_distribution.process_count"),
        ("matmuls.poplar_option", "matmuls.poplar_options"),
        ("slices.poplar_opts", "slices.poplar_options"),
    ],
)
def test_unknown_names_get_a_suggestion(path, suggestion):
    cfg = IPUConfig()
    parent, _, last = path.rpartition(".")
    owner = getattr(cfg, parent) if parent else cfg
    text = f"'{last}' is not a valid attribute of this config.*'{suggestion}'"
    with pytest.raises(ValueError, match=text):
        getattr(owner, last)
    with pytest.raises(ValueError, match=text):
        setattr(owner, last, 1)


def test_unknown_names_without_a_suggestion():
    with pytest.raises(ValueError, match=r"valid attribute of this config\.$"):
        IPUConfig().zzzzzz  # noqa: B018
    assert not hasattr(IPUConfig(), "zzzzzz")
    assert not hasattr(IPUConfig(), "_repr_html_")


def test_categories_cannot_be_assigned_to():
    cfg = IPUConfig()
    with pytest.raises(Exception, match="ipu_model is a category and cannot be ass"):
        cfg.ipu_model = 3
    name = "experimental.multi_replica_distribution is a category"
    with pytest.raises(Exception, match=name):
        cfg.experimental.multi_replica_distribution = None


def test_metadata():
    cfg = IPUConfig()
    metadata = cfg.get_attribute_metadata("io_tiles.available_memory_proportion")
    assert (metadata.type, metadata.default) == (float, 0.9)
    assert (metadata.deprecated, metadata.deprecated_msg) == (False, None)
    with pytest.raises(TypeError):
        metadata.check_type(1)
    old = cfg.get_attribute_metadata("optimizations.enable_fast_math")
    assert old.deprecated
    assert "optimizations.math.fast" in old.deprecated_msg
    for bad, part in (("io_tiles.nothing", "nothing"), ("none.version", "none")):
        with pytest.raises(ValueError, match=f"'{bad}': '{part}' is not an option"):
            cfg.get_attribute_metadata(bad)
    with pytest.raises(
        ValueError, match=r"'io_tiles' is not an option.*'num_io_tiles'"
    ):
        cfg.io_tiles.get_attribute_metadata("io_tiles.num_io_tiles")
    for bad in ("nothing", "ipu_model", "ipu_model.nothing"):
        with pytest.raises(ValueError, match="Could not get attribute metadata for"):
            cfg.get_attribute_metadata(bad)


def test_the_deprecated_option_warns_and_works(caplog):
    cfg = IPUConfig()
    cfg.optimizations.enable_fast_math = True
    assert "enable_fast_math has been deprecated: " in caplog.text
    assert cfg.optimizations.math.fast is True
    assert cfg.optimizations.enable_fast_math is True


def changed():
    cfg = IPUConfig()
    cfg.auto_select_ipus = [2, 1]
    cfg.selection_order = SelectionOrder.SNAKE
    cfg.convolutions.poplar_options["partialsType"] = "half"
    cfg.floating_point_behaviour.esr = StochasticRoundingBehaviour.ON
    cfg.optimizations.math.fast = True
    return cfg


@pytest.mark.parametrize(
    "again",
    [
        lambda cfg: IPUConfig.from_dict(cfg.to_dict()),
        lambda cfg: IPUConfig.from_json(cfg.to_json()),
        copy.deepcopy,
        lambda cfg: pickle.loads(pickle.dumps(cfg)),
    ],
    ids=["dict", "json", "deepcopy", "pickle"],
)
def test_copies_are_equal_and_independent(again, caplog):
    cfg = changed()
    copied = again(cfg)
    assert copied.to_dict() == cfg.to_dict()
    assert copied.selection_order is SelectionOrder.SNAKE
    copied.convolutions.poplar_options["partialsType"] = "float"
    copied.io_tiles.num_io_tiles = 32
    copied.auto_select_ipus.append(4)
    assert cfg.to_dict() == changed().to_dict()
    assert not caplog.records


def test_serialised_form(caplog):
    assert json.loads(changed().to_json())["selection_order"] == 2
    partial = IPUConfig.from_dict({"ipu_model.version": "ipu1"})
    assert partial.ipu_model.version == "ipu1"
    assert "allow_recompute is missing" in caplog.text
    with pytest.raises(ValueError, match=r"ipu_model\.version"):
        IPUConfig.from_dict({"ipu_model.versoin": "ipu1"})
    with pytest.raises(ValueError, match="9 is not a SelectionOrder"):
        IPUConfig.from_dict({"selection_order": 9})
    with pytest.raises(TypeError, match="allow_recompute"):
        IPUConfig.from_dict({"allow_recompute": 1})
    caplog.clear()
    old = IPUConfig.from_dict({"optimizations.enable_fast_math": True})
    assert old.optimizations.math.fast is True


def test_default_containers_are_not_shared():
    IPUConfig().convolutions.poplar_options["a"] = "b"
    IPUConfig().auto_select_ipus.append(1)
    assert IPUConfig().to_dict() == DEFAULTS


def test_text_forms():
    lines = str(IPUConfig()).splitlines()
    assert len(lines) == len(DEFAULTS)
    assert "ipu_model.version = ipu2" in lines
    assert "selection_order = SelectionOrder.AUTO" in lines
    assert repr(IPUConfig()) == "IPUConfig()"
    text = repr(changed())
    assert text.startswith("IPUConfig(")
    assert "auto_select_ipus=[2, 1]" in text
    assert str(IPUConfig().slices) == "slices.poplar_options = {}"


def test_esr_from_bool():
    from_bool = StochasticRoundingBehaviour.from_bool
    assert from_bool(True) is StochasticRoundingBehaviour.ON
    assert from_bool(False) is StochasticRoundingBehaviour.OFF
    with pytest.raises(TypeError):
        from_bool(1)


GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"


@pytest.mark.parametrize(
    ("cfg", "error", "text"),
    [
        (
            with_option("select_ipus", 0, auto_select_ipus=1),
            Exception,
            "Only one of .* can be set",
        ),
        (with_option("select_ipus", [1, 1]), ValueError, "must be unique"),
        (
            with_option("device_connection.type", NEVER),
            ValueError,
            "device_connection.version must be set when",
        ),
        (
            with_option("device_connection.type", PRE_COMPILE),
            ValueError,
            "device_connection.version must be set when",
        ),
        (with_option("device_connection.version", "ipu9"), ValueError, "one of ipu1"),
        (with_option("ipu_model.version", "ipu9"), ValueError, "ipu_model.version"),
        (
            with_option("io_tiles.place_ops_on_io_tiles", True),
            ValueError,
            "Cannot place ops on I/O tiles when",
        ),
        (
            with_option(PROCESS + "index", 2),
            ValueError,
            "process_index must be in the range",
        ),
        (
            with_option(PROCESS + "count", 2),
            ValueError,
            "process_count = 2, process_index = 0, but this is process 0 of 1",
        ),
        (with_option(GROUP, 0), ValueError, "at least 1"),
        *(
            (
                with_option(
                    "optimizations.maximum_cross_replica_sum_buffer_size", size
                ),
                ValueError,
                f"buffer_size must be a number of bytes.*Received: {size}",
            )
            for size in (-1, 1 << 63)
        ),
    ],
)
def test_options_that_do_not_fit(cfg, error, text):
    with pytest.raises(error, match=text):
        cfg.configure_ipu_system()
    assert not devices.is_configured()


def test_replica_groups_and_io_tiles_do_not_fit():
    cfg = with_option(GROUP, 2)
    cfg.io_tiles.num_io_tiles = 32
    with pytest.raises(ValueError, match="is not supported with I/O tiles"):
        cfg.configure_ipu_system()


def test_seed_arguments():
    with pytest.raises(TypeError, match="seed must be an integer"):
        utils.reset_ipu_seed(1.5)
    with pytest.raises(ValueError, match="must name an IPU"):
        utils.reset_ipu_seed(1, device="cpu")


def test_utils_has_the_names_of_config():
    for name in config.__all__:
        if name != "AttributeMetadata":
            assert getattr(utils, name) is getattr(config, name)
    utils.move_variable_initialization_to_cpu()


@pytest.mark.parametrize("category", ["convolutions", "matmuls"])
@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("partialsType", "float16"),
        ("partialsType", 16),
        ("availableMemoryProportion", "much"),
        ("availableMemoryProportion", 1.5),
    ],
)
def test_options_of_products_are_checked(category, option, wrong):
    cfg = IPUConfig()
    options = getattr(cfg, category).poplar_options
    options[option] = wrong
    with pytest.raises(ValueError, match=rf"{category}.*{option}.*must be"):
        cfg.configure_ipu_system()
    options.update(partialsType="half", availableMemoryProportion="0.2", other="kept")
    cfg.configure_ipu_system()
