# SPDX-License-Identifier: MIT
"""`ipu.drop_in`: TensorFlow's and Keras's module names served by `ipu`."""

import contextlib
import importlib
import inspect
import linecache
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import ipu
from ipu import drop_in
from ipu._text.missing import MissingModuleError, MissingNameError
from ipu.drop_in import _facade, _table


@pytest.fixture
def served():
    linecache.clearcache()  # sources of these tests have names, and no files
    drop_in.install()
    yield
    drop_in.uninstall()


def load(path):
    """The object of a dotted path, imported and read as a program would."""
    parts = path.split(".")
    value = importlib.import_module(parts[0])
    for n, part in enumerate(parts[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(".".join(parts[:n]))
    return value


# --- what resolves to what


@pytest.mark.parametrize(
    "path, native",
    [
        ("tensorflow.constant", "tf.constant"),
        ("tensorflow.compat.v2.reduce_sum", "tf.reduce_sum"),
        ("tensorflow.compat.v1.matmul", "tf.matmul"),
        ("tensorflow.keras.layers.Dense", "keras.layers.Dense"),
        ("tensorflow.python.keras.layers.Dense", "keras.layers.Dense"),
        ("tensorflow.compat.v1.keras.layers.Dense", "keras.layers.Dense"),
        ("tensorflow.compat.v2.keras.Model", "keras.Model"),
        ("keras.layers.core.Dense", "keras.layers.Dense"),
        ("keras.engine.training.Model", "keras.Model"),
        ("tensorflow.python.keras.engine.sequential.Sequential", "keras.Sequential"),
        ("keras.optimizer_v2.gradient_descent.SGD", "keras.optimizers.SGD"),
        ("keras.optimizer_v2.optimizer_v2.OptimizerV2", "keras.optimizers.Optimizer"),
        ("tensorflow.optimizers.SGD", "keras.optimizers.SGD"),
        ("tensorflow.initializers.Zeros", "keras.initializers.Zeros"),
        ("tensorflow.zeros_initializer", "keras.initializers.Zeros"),
        ("tensorflow.constant_initializer", "keras.initializers.Constant"),
        ("keras.ipu.PipelineStage", "keras.PipelineStage"),
        ("tensorflow.keras.ipu.PipelineStage", "keras.PipelineStage"),
        ("keras.ipu.extensions.PipelineStage", "keras.PipelineStage"),
        ("tensorflow.python.ipu.keras.PipelineStage", "keras.PipelineStage"),
        ("tensorflow.python.ipu.config.IPUConfig", "config.IPUConfig"),
        ("tensorflow.python.ipu.utils.IPUConfig", "config.IPUConfig"),
        ("tensorflow.python.ipu.IPUInfeedQueue", "ipu_infeed_queue.IPUInfeedQueue"),
        ("tensorflow.python.ipu.ipu_strategy.IPUStrategy", "ipu_strategy.IPUStrategy"),
        ("tensorflow.python.ipu.loops.repeat", "loops.repeat"),
        ("tensorflow.python.ipu.scopes.ipu_scope", "scopes.ipu_scope"),
        ("tensorflow.python.ipu.ipu_compiler.compile", "ipu_compiler.compile"),
        (
            "tensorflow.python.ipu.ops.pipelining_ops.PipelineSchedule",
            "pipelining_ops.PipelineSchedule",
        ),
        (
            "tensorflow.python.ipu.pipelining_ops.RecomputationMode",
            "pipelining_ops.RecomputationMode",
        ),
        ("tensorflow.python.ops.math_ops.matmul", "tf.matmul"),
        ("tensorflow.python.ops.array_ops.ones", "tf.ones"),
        ("tensorflow.python.ops.nn_ops.relu", "tf.nn.relu"),
        ("tensorflow.python.ops.nn.softmax", "tf.nn.softmax"),
        ("tensorflow.python.ops.random_ops.random_uniform", "tf.random.uniform"),
        ("tensorflow.python.ops.variables.Variable", "tf.Variable"),
        (
            "tensorflow.python.ops.init_ops.zeros_initializer",
            "tf.compat.v1.zeros_initializer",
        ),
        ("tensorflow.python.framework.ops.Tensor", "tf.Tensor"),
        ("tensorflow.python.framework.ops.EagerTensor", "tf.Tensor"),
        ("tensorflow.python.framework.dtypes.float32", "tf.float32"),
        ("tensorflow.python.framework.constant_op.constant", "tf.constant"),
        ("tensorflow.python.framework.tensor_spec.TensorSpec", "tf.TensorSpec"),
        ("tensorflow.python.framework.errors.NotFoundError", "tf.errors.NotFoundError"),
        ("tensorflow.python.framework.errors_impl.OpError", "tf.errors.OpError"),
        (
            "tensorflow.python.framework.test_util.TensorFlowTestCase",
            "tf.test.TestCase",
        ),
        ("tensorflow.python.platform.test.TestCase", "tf.test.TestCase"),
        ("tensorflow.python.platform.googletest.main", "tf.test.main"),
        ("tensorflow.python.data.ops.dataset_ops.Dataset", "tf.data.Dataset"),
        ("tensorflow.python.data.ops.dataset_ops.DatasetV2", "tf.data.Dataset"),
        ("ipu_tensorflow_addons.keras.layers.Dropout", "keras.layers.Dropout"),
        (
            "ipu_tensorflow_addons.keras.layers.RecomputationCheckpoint",
            "layers.RecomputationCheckpoint",
        ),
        (
            "tensorflow.python.ipu.optimizers.gradient_accumulation_optimizer"
            ".GradientAccumulationReductionMethod",
            "gradient_accumulation.GradientAccumulationReductionMethod",
        ),
        (
            "tensorflow.python.ipu.keras.extensions.sequential_extensions"
            ".SequentialExtension",
            "keras.Sequential",
        ),
    ],
)
def test_names_are_the_same_objects(served, path, native):
    wanted = ipu
    for part in native.split("."):
        wanted = getattr(wanted, part)
    assert load(path) is wanted


def test_the_imports_of_programs(served):
    exec(
        textwrap.dedent("""
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        import tensorflow.compat.v2 as v2
        from tensorflow import keras
        from tensorflow.keras import Model
        from tensorflow.keras.layers import Flatten, Dense, Input
        from tensorflow.keras.utils import to_categorical
        from tensorflow.python import ipu, keras as inner
        from tensorflow.python.ipu import utils, scopes, loops, sharding, autoshard
        from tensorflow.python.ipu import test_utils as tu
        from tensorflow.python.ipu.scopes import ipu_scope
        from tensorflow.python.ipu.ops import pipelining_ops
        from tensorflow.python.framework import ops, dtypes, errors, test_util
        from tensorflow.python.eager import def_function, backprop, context
        from tensorflow.python.ops import math_ops, array_ops, variables, nn, init_ops
        from tensorflow.python.ops import variable_scope, rnn_cell
        from tensorflow.python.client import session as sl
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.python.ipu import horovod, serving, ipu_estimator, embedding_ops
        from tensorflow.python.ipu.ops import replication_ops, internal_ops
        from tensorflow.python.ipu.optimizers import gradient_accumulation_optimizer
        from tensorflow.python.platform import tf_logging, gfile, app
        from tensorflow.python.training import gradient_descent, momentum
        from tensorflow.python.util import nest, tf_inspect
        from tensorflow.python.data.experimental import AUTOTUNE
        from tensorflow.compiler.plugin.poplar.tests import test_utils
        from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
        from tensorflow.python.compat import v2_compat
        from tensorflow.python.ipu.tests import pipelining_test_util
        from tensorflow.python.keras.engine import base_layer_utils, training_utils

        v2_compat.enable_v2_behavior()
        base_layer_utils.enable_v2_dtype_behavior()
        import keras as own
        from keras import ipu as keras_ipu, backend, testing_utils, combinations
        from keras.datasets import mnist
        from keras.ipu import extensions
        """),
        {},
    )


def test_versions(served):
    import keras
    import tensorflow as tf

    assert tf.__version__.split(".")[0] == "2" == tf.version.VERSION[0]
    assert keras.__version__.startswith("2.") and tf.keras.__version__
    assert tf.compat.v1.__version__ == tf.__version__


def test_importing_tensorflow_loads_nothing():
    program = (
        "import sys; from ipu import drop_in; drop_in.install(); import tensorflow; "
        "assert 'ipu.tf' not in sys.modules and 'ipu.keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_star_imports_and_completion(served):
    names = {}
    exec("from tensorflow.keras.layers import *", names)
    assert names["Dense"] is ipu.keras.layers.Dense
    import tensorflow as tf

    assert {"constant", "keras", "compat", "data"} <= set(dir(tf))
    assert "Dense" in dir(tf.keras.layers)
    assert "ipu.drop_in" in repr(tf)


def test_every_entry_names_something_or_comes_later(served):
    """A module of the table can be imported, and so can what it lists."""
    for path in _table._TABLE:
        module = importlib.import_module(path)
        for name in module.__all__:
            getattr(module, name)


def test_every_source_of_the_table_lists_what_it_offers():
    for path, entry in _table._TABLE.items():
        for source in entry.sources:
            with contextlib.suppress(ModuleNotFoundError):  # it is left out
                found = importlib.import_module(source)
                served = isinstance(found, _facade.Facade)
                assert served or found.__all__, (path, source)


# --- names that are not there


def raised(source):
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(compile(source, "program.py", "exec"), {})
    return caught.value


@pytest.mark.parametrize(
    "source, name, words",
    [
        (
            "import tensorflow as tf\ntf.nn.rnn_cell",
            "tensorflow.nn.rnn_cell",
            "recurrent layers",
        ),
        (
            "import tensorflow as tf\n\ntf.Session()",
            "tensorflow.Session",
            "tf.function",
        ),
        (
            "import keras\nkeras.layers.CuDNNLSTM(3)",
            "keras.layers.CuDNNLSTM",
            "recurrent layers",
        ),
        (
            "import tensorflow as tf\ntf.estimator.Estimator(print)",
            "tensorflow.estimator.Estimator",
            "keras.Model",
        ),
        (
            "import tensorflow as tf\ntf.distribute.MirroredStrategy()",
            "tensorflow.distribute.MirroredStrategy",
            "PopDistStrategy",
        ),
        (
            "from tensorflow.python.ipu import autoshard_cnn",
            "tensorflow.python.ipu.autoshard_cnn",
            "ipu_shard",
        ),
        (
            "import tensorflow.compat.v1 as tf\ntf.import_graph_def()",
            "tensorflow.compat.v1.import_graph_def",
            "GraphDef",
        ),
        (
            "import tensorflow as tf\ntf.reduce_summ",
            "tensorflow.reduce_summ",
            "'reduce_sum'",
        ),
        (
            "from tensorflow.python.ops import fop",
            "tensorflow.python.ops.fop",
            "not in ipu",
        ),
    ],
)
def test_one_clear_error(served, source, name, words):
    error = raised(source)
    assert isinstance(error, (MissingNameError, MissingModuleError))
    text = str(error)
    assert text.startswith(f"{name} is not in ipu") and words in text
    assert f"(line {source.count(chr(10)) + 1} of program.py)" in text


def test_programs_can_ask_whether_a_name_is_there(served):
    import tensorflow as tf

    assert hasattr(tf, "constant") and not hasattr(tf, "lite")
    assert getattr(tf.nn, "weighted_hinge", None) is None
    assert importlib.util.find_spec("tensorflow.lite") is None
    assert importlib.util.find_spec("tensorflow.keras") is not None
    for source in (
        "try:\n  import tensorflow.lite\nexcept ModuleNotFoundError: found = False",
        "try:\n  from tensorflow import lite\nexcept ImportError: found = False",
    ):
        names = {}
        exec(source, names)
        assert names["found"] is False


def test_native_names_give_the_same_error():
    for path, words in (
        ("tf.no_such_op", "tf.no_such_op is not in ipu"),
        ("no_such_module", "ipu.no_such_module is not in ipu"),
        ("tf.estimator.Estimator", "estimators"),
    ):
        value, names = ipu, path.split(".")
        with pytest.raises(MissingNameError, match=words) as caught:
            for name in names:
                value = getattr(value, name)
        assert __file__ in str(caught.value)


def test_introspection_does_not_stumble(served):
    import tensorflow as tf

    assert inspect.ismodule(tf) and inspect.getdoc(tf)
    for name in ("__file__", "__warningregistry__", "__wrapped__", "__bases__"):
        assert not hasattr(tf, name)
    assert inspect.getmodule(tf.constant) is not None
    warned = [
        m for m in list(sys.modules.values()) if getattr(m, "__warningregistry__", 0)
    ]
    assert isinstance(warned, list)


# --- installing and uninstalling


def test_install_sets_real_modules_aside():
    real, below = types.ModuleType("tensorflow"), types.ModuleType("tensorflow.io")
    sys.modules["tensorflow"], sys.modules["tensorflow.io"] = real, below
    try:
        drop_in.install()
        drop_in.install()
        import tensorflow as tf

        assert tf is not real and tf.constant is ipu.tf.constant
        drop_in.uninstall()
        assert sys.modules["tensorflow"] is real
        assert sys.modules["tensorflow.io"] is below
        assert not drop_in.installed()
        drop_in.uninstall()
    finally:
        drop_in.uninstall()
        del sys.modules["tensorflow"], sys.modules["tensorflow.io"]


def test_uninstall_leaves_nothing():
    before = list(sys.meta_path)
    drop_in.install()
    assert drop_in.installed()
    import tensorflow.keras.layers  # noqa: F401

    drop_in.uninstall()
    assert sys.meta_path == before
    roots = ("tensorflow", "keras", "ipu_tensorflow_addons", "pva")
    assert not [name for name in sys.modules if name.partition(".")[0] in roots]


def test_the_notebook_extension():
    ipu.load_ipython_extension(None)
    try:
        assert drop_in.installed()
    finally:
        ipu.unload_ipython_extension(None)
    assert not drop_in.installed()


def test_the_tool_pva_is_served_only_where_it_is_missing(served, tmp_path, monkeypatch):
    import pva

    error = None
    try:
        pva.openReport("x")
    except AttributeError as caught:
        error = caught
    assert "PopVision" in str(error)
    del sys.modules["pva"]
    (tmp_path / "pva.py").write_text("openReport = len")
    monkeypatch.syspath_prepend(tmp_path)
    import pva as real

    assert real.openReport is len
    del sys.modules["pva"]


# --- packages that look for TensorFlow


def test_tqdm_keras(served):
    pytest.importorskip("tqdm")
    sys.modules.pop("tqdm.keras", None)
    from tqdm.keras import TqdmCallback

    assert issubclass(TqdmCallback, ipu.keras.callbacks.Callback)
    del sys.modules["tqdm.keras"]


def test_packages_that_only_look(served):
    pytest.importorskip("matplotlib")
    import tensorflow as tf
    from matplotlib import cbook

    assert cbook._unpack_to_numpy([1, 2]) == [1, 2]
    np.testing.assert_array_equal(cbook._unpack_to_numpy(tf.ones([2])), [1.0, 1.0])


def test_einops(served):
    einops = pytest.importorskip("einops")
    assert einops.rearrange(np.ones([2, 3]), "a b -> b a").shape == (3, 2)


# --- stand-ins


@pytest.mark.parametrize(
    ("momentum", "centered"), [(0.0, False), (0.5, False), (0.9, True)]
)
def test_rms_prop_of_tensorflow_1(served, momentum, centered):
    from tensorflow.python.training.rmsprop import RMSPropOptimizer

    optimizer = RMSPropOptimizer(0.1, 0.8, momentum, 1e-3, centered=centered)
    weight = ipu.tf.Variable([1.0, -2.0])
    expected = np.array([1.0, -2.0])
    square, mean, change = np.ones(2), np.zeros(2), np.zeros(2)
    for gradient in np.array([[0.5, -1.0], [2.0, 0.25], [-1.0, 0.0]]):
        optimizer.apply_gradients([(ipu.tf.constant(gradient, "float32"), weight)])
        square = 0.8 * square + 0.2 * gradient**2
        mean = 0.8 * mean + 0.2 * gradient
        spread = square - mean**2 if centered else square
        change = momentum * change + 0.1 * gradient / np.sqrt(spread + 1e-3)
        expected = expected - change
        np.testing.assert_allclose(weight, expected, rtol=1e-5)


def test_optimizers_of_tensorflow_1(served):
    import tensorflow as tf
    from tensorflow.python.training import adam, gradient_descent, momentum

    x = np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)
    y = x.sum(axis=1, keepdims=True)

    def trained(optimizer):
        with ipu.ipu_strategy.IPUStrategy().scope():
            model = tf.keras.Sequential(
                [tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))]
            )
            model.compile(optimizer, "mse")
            model.fit(x, y * 2, batch_size=4, epochs=2, shuffle=False, verbose=0)
            return model.get_weights()

    for first, keras in (
        (gradient_descent.GradientDescentOptimizer(0.1), tf.keras.optimizers.SGD(0.1)),
        (momentum.MomentumOptimizer(0.1, 0.9), tf.keras.optimizers.SGD(0.1, 0.9)),
        (adam.AdamOptimizer(0.1), tf.keras.optimizers.Adam(0.1, epsilon=1e-8)),
    ):
        for one, other in zip(trained(first), trained(keras), strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="var_list"):
        gradient_descent.GradientDescentOptimizer(0.1).minimize(lambda: 1.0)
    assert not hasattr(tf.compat.v1.train, "SyncReplicasOptimizer")


def test_files(served, tmp_path):
    import tensorflow as tf

    path = str(tmp_path / "a" / "b.txt")
    tf.io.gfile.makedirs(tmp_path / "a")
    with tf.io.gfile.GFile(path, "w") as file:
        file.write("text")
    assert tf.io.gfile.exists(path) and tf.io.gfile.listdir(tmp_path / "a") == ["b.txt"]
    tf.io.gfile.copy(path, path + "2")
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.io.gfile.copy(path, path + "2")
    assert tf.io.gfile.glob(str(tmp_path / "a" / "*")) == [path, path + "2"]
    tf.io.gfile.rmtree(tmp_path / "a")
    with pytest.raises(tf.errors.NotFoundError):
        tf.io.gfile.GFile(path)


def test_devices(served):
    import tensorflow as tf

    ipu.config.reset_ipu_configuration()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()
    try:
        names = [d.name for d in tf.config.list_logical_devices("IPU")]
        assert names == ["/device:IPU:0", "/device:IPU:1"]
        assert tf.config.experimental.list_physical_devices("GPU") == []
    finally:
        ipu.config.reset_ipu_configuration()


def test_v1_names(served):
    import tensorflow.compat.v1 as tf

    tf.enable_v2_behavior()
    assert float(tf.div(6.0, 3.0)) == 2.0
    assert tf.to_int32(1.7).numpy() == 1
    v = tf.Variable(1.0)
    tf.assign_add(v, 2.0)
    assert float(v) == 3.0
    tf.logging.set_verbosity(tf.logging.ERROR)
    assert tf.logging.get_verbosity() == tf.logging.ERROR
    tf.disable_resource_variables()


def test_one_device_strategy(served):
    import tensorflow as tf

    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])

    def step(x, factor):
        v.assign_add(x)
        return {"sum": tf.reduce_sum(v) * factor}

    x = np.ones(2, np.float32)
    plain = strategy.run(step, args=(x,), kwargs={"factor": np.float32(2)})
    traced = strategy.run(tf.function(step), kwargs={"x": x, "factor": 1.0})
    assert (float(plain["sum"]), float(traced["sum"])) == (10.0, 7.0)


def test_reduction_under_its_old_path(served):
    import keras

    reduction = keras.losses.losses_utils.ReductionV2
    assert reduction.SUM == keras.losses.Reduction.SUM
    assert keras.utils.losses_utils.ReductionV2 is reduction


def test_an_optimizer_that_wraps_another(served):
    from tensorflow import keras
    from tensorflow.python.training.optimizer import Optimizer

    class Halving(Optimizer):
        def __init__(self, wrapped, model):
            super().__init__(False, "Halving")
            self.wrapped, self.model = wrapped, model
            self.calls = []

        def compute_gradients(self, loss, var_list=None, **kwargs):
            self.calls.append("compute")
            gradients = self.wrapped.get_gradients(loss, self.model.trainable_weights)
            return [
                (g * 0.5, v)
                for g, v in zip(gradients, self.model.trainable_weights, strict=True)
            ]

        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            self.calls.append("apply")
            return self.wrapped.apply_gradients(grads_and_vars)

    def trained(halved):
        model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
        sgd = keras.optimizers.SGD(0.1 if halved else 0.05)
        optimizer = Halving(sgd, model) if halved else sgd
        model.compile(optimizer, "mse", steps_per_execution=4)
        x = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
        model.fit(x, x[:, :1], batch_size=1, shuffle=False, verbose=0)
        if halved:
            assert optimizer.calls[:2] == ["compute", "apply"]
        return model.get_weights()

    for ours, plain in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 40])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_labels_that_are_no_class_give_nan_on_a_device(served, classes, dtype):
    """As XLA has it; on the host, and in programs for this package, they are errors."""
    from ipu import ipu_compiler, scopes, tf

    logits = tf.ones((3, classes), dtype)
    labels = tf.constant([1, classes, -1])

    def losses(x, labels):
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)
        return loss, tf.gradients(loss, x)[0]

    with scopes.ipu_scope("/device:IPU:0"):
        loss, slopes = ipu_compiler.compile(losses, [logits, labels])
    assert np.isnan(loss).tolist() == [False, True, True]
    assert np.isnan(slopes).all(axis=1).tolist() == [False, True, True]
    assert not np.isnan(slopes[0]).any()
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the"):
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def test_what_differs_in_tensorflow_1_is_served(served, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, tensorflow as tf\n"
        "x = tf.constant([[1., 2.], [3., 4.]])\n"
        "tables = [tf.Variable([[0.], [2.]]), tf.Variable([[1.], [3.]])]\n"
        "fetches = [tf.where([True, False], x, -x), tf.div(7, 2), tf.arg_max(x, 1),\n"
        "    tf.nn.embedding_lookup(tables, [3, 0]),\n"
        "    tf.image.resize_images([[[0.], [2.]]], [1, 4]),\n"
        "    tf.losses.absolute_difference(x, -x, reduction='weighted_sum'),\n"
        "    tf.cond(tf.constant(True), fn1=lambda: 1, fn2=lambda: 2),\n"
        "    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])]\n"
        "with tf.Session() as session:\n"
        "    session.run(tf.global_variables_initializer())\n"
        "    for found in session.run(fetches):\n"
        "        print(np.ravel(found).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "run", str(program)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == [
        "[1.0, 2.0, -3.0, -4.0]",
        "[3]",
        "[1, 1]",
        "[3.0, 0.0]",
        "[0.0, 1.0, 2.0, 2.0]",
        "[20.0]",
        "[1]",
        "[3]",
    ], done.stderr
