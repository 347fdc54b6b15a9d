# SPDX-License-Identifier: MIT
"""The command "ipu run"."""

import subprocess
import sys
import textwrap

import pytest

import ipu


def run(tmp_path, text, *words, name="program.py", **options):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    words = list(words) or [str(path)]
    return subprocess.run(
        [sys.executable, "-m", "ipu", "run", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        **options,
    )


def test_run_looks_like_python(tmp_path):
    (tmp_path / "helper.py").write_text("import tensorflow as tf\nzeros = tf.zeros\n")
    path = tmp_path / "program.py"
    done = run(
        tmp_path,
        """
        import sys
        import __main__
        import helper
        def f(): pass
        print(sys.argv, __name__, sys.path[0], __file__, __spec__)
        print(helper.zeros([2]).numpy(), __main__.f is f, f.__module__)
        import pickle
        print(pickle.loads(pickle.dumps(f)) is f)
        """,
        str(path),
        "--epochs",
        "3",
        "-m",
        "x",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{[str(path), '--epochs', '3', '-m', 'x']} __main__ {tmp_path} {path} None",
        "[0. 0.] True __main__",
        "True",
    ]


def test_run_a_module_and_a_folder(tmp_path):
    text = "import sys, tensorflow as tf\nprint(__name__, __package__, sys.argv[1:])"
    done = run(tmp_path, text, "-m", "pkg", "--a", "b", name="pkg/__main__.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "__main__ pkg ['--a', 'b']\n"
    done = run(tmp_path, text, "-m", "pkg.mod", name="pkg/mod.py")
    assert done.stdout == "__main__ pkg []\n"
    done = run(tmp_path, text, "pkg", "c", name="pkg/__main__.py")
    assert done.stdout == "__main__  ['c']\n"
    done = run(tmp_path, text, "-m", "nothing")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "no module named 'nothing'" in done.stderr
    done = run(tmp_path, "import absent_package", "-m", "pkg2.mod", name="pkg2/mod.py")
    assert done.returncode == 1 and "absent_package" in done.stderr


def test_programs_of_tensorflow_1(tmp_path):
    """Names of graphs are in `tensorflow` itself, and ops go to a graph at once."""
    text = """
    import tensorflow as tf
    from tensorflow.python.framework import ops
    x = tf.constant([1.0, 2.0])
    print(tf.__version__[0], ops.get_default_graph() is x.graph)
    w = tf.get_variable("w", initializer=3.0)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.square(w))
    logits = tf.layers.dense(tf.placeholder(tf.float32, [2, 3]), 4)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        print(session.run([tf.log(tf.reduce_max(x, reduction_indices=0)), w]))
    print(logits.shape, tf.train.AdamOptimizer is tf.compat.v1.train.AdamOptimizer)
    """
    done = run(tmp_path, text, "program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1 True",
        "[np.float32(0.6931472), np.float32(0.0)]",
        "(2, 4) True",
    ]


def test_functions_are_found_after_a_change_of_folder(tmp_path):
    text = """
    import os, tempfile
    import tensorflow as tf
    os.chdir(tempfile.gettempdir())

    @tf.function
    def double(x):
        for _ in tf.range(3):
            x = x * 2.0
        return x

    print(float(double(tf.constant(1.0))))
    """
    done = run(tmp_path, text, "program.py")
    assert done.returncode == 0 and done.stdout == "8.0\n", done.stderr


@pytest.mark.parametrize(
    "text, status, words",
    [
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('message')", 1, "message"),
        ("pass", 0, ""),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("raise ValueError('bad')", 1, "ValueError: bad"),
        ("raise OSError('bad')", 1, "Traceback"),
        ("def f(:", 1, "SyntaxError"),
        (
            "import tensorflow as tf\ntf.compat.v1.app.run(lambda argv: len(argv))",
            1,
            "",
        ),
        ("import os; os._exit(7)", 7, ""),
    ],
)
def test_exit_status(tmp_path, text, status, words):
    done = run(tmp_path, text)
    assert done.returncode == status and words in done.stderr, done.stderr


def test_tracebacks_show_the_program_only(tmp_path):
    text = """
    import tensorflow as tf
    def inner():
        tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))
    def outer():
        try:
            inner()
        except Exception as error:
            raise RuntimeError("outer failed") from error
    outer()
    """
    done = run(tmp_path, text)
    assert done.returncode == 1
    assert "RuntimeError: outer failed" in done.stderr
    assert "in inner" in done.stderr and "in outer" in done.stderr
    package = ipu.__file__.rpartition("/")[0]
    assert f'File "{package}' not in done.stderr
    assert "runpy" not in done.stderr
    path = str(tmp_path / "program.py")
    done = run(tmp_path, "import tensorflow as tf\ntf.compat.v1.app.run(lambda a: 1/0)")
    assert f'File "{package}' not in done.stderr
    done = run(
        tmp_path,
        "import tensorflow as tf\ntf.compat.v1.app.run(lambda a: 1/0)",
        "--full-traceback",
        path,
    )
    assert f'File "{package}' in done.stderr


def test_a_program_may_set_its_own_hook(tmp_path):
    text = """
    import sys
    sys.excepthook = lambda kind, error, trace: print("hook", error)
    1 / 0
    """
    done = run(tmp_path, text)
    assert done.returncode == 1 and done.stdout == "hook division by zero\n"


def test_missing_programs(tmp_path):
    done = run(tmp_path, "", "none.py")
    assert done.returncode == 1 and "none.py" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "run"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "name a program" in done.stderr


def test_an_unknown_flag_is_told_at_the_first_use_of_a_device(tmp_path):
    text = """
    import os
    import tensorflow as tf
    os.environ["TF_POPLAR_FLAGS"] = os.environ.get("TF_POPLAR_FLAGS", "") + " --nope"
    print("before")
    tf.Variable(1.0)
    """
    done = run(tmp_path, text)
    assert done.returncode == 1 and done.stdout == "before\n"
    assert "Unknown flag '--nope'" in done.stderr
