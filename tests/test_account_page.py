"""The machine's account as a file: its data against the account, and in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.machine import Account, Machine, estimate


def pipeline() -> Account:
    layers = keras.layers
    model = keras.SequentialPipelineModel(
        [
            [layers.Dense(64, "relu", input_shape=(20,))],
            [layers.Dense(4)],
        ],
        8,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    return model.account(tf.TensorSpec([16, 20]), tf.TensorSpec([16], tf.int32))


def convolutional(batch: int = 4, filters: int = 8) -> Account:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(filters, 3, activation="relu"),
            layers.Conv2D(filters, 3),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    model.compile("adam", "mse")
    return model.account(tf.TensorSpec([batch, 16, 16, 3]), tf.TensorSpec([batch, 4]))


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text("utf-8")
    [found] = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)
    return json.loads(found)


@pytest.mark.parametrize("make", [pipeline, convolutional])
def test_a_page_holds_the_whole_account(make: Any, tmp_path: Path) -> None:
    account = make()
    account.save(tmp_path / "x.html")
    [found] = data_of(tmp_path / "x.html")["accounts"]
    steps = found["steps"]
    names, sources, kinds = found["names"], found["sources"], found["kinds"]
    for row, step in zip(zip(*steps.values(), strict=True), account.steps, strict=True):
        name, kind, on, start, cycles, times, tiles, source, rough, number = row
        assert (names[name], kinds[kind], on) == (step.name, step.kind, step.ipu)
        assert (start, cycles, times) == (step.start, step.cycles, step.times)
        assert (tiles, sources[source]) == (step.tiles, step.source)
        assert (bool(rough), number) == (step.is_estimated, step.number)
    for tab, sums in (("layer", account.by_layer()), ("op", account.by_op())):
        again: dict[str, float] = {}
        for name, n, times in zip(
            steps["name"], steps["cycles"], steps["times"], strict=True
        ):
            key = found[f"names_{tab}"][name]
            again[key] = again.get(key, 0.0) + n * times
        assert again == sums
    tensors = [one for memory in account.memories for one in memory.tensors]
    columns = found["tensors"]
    assert columns["bytes"] == [one.bytes for one in tensors]
    assert [names[n] for n in columns["name"]] == [one.name for one in tensors]
    assert [found["types"][n] for n in columns["type"]] == [t.type for t in tensors]
    for one, memory in zip(found["memories"], account.memories, strict=True):
        for place, wanted in ((1, memory.always_per_tile), (2, memory.per_tile)):
            tiles = [np.full(run[0], run[place]) for run in one["per_tile"]]
            assert np.array_equal(np.concatenate(tiles), wanted)
        assert memory.always_per_tile.sum() == memory.always_live
        assert (one["max_tile"], one["fits"]) == (memory.max_tile, memory.fits)
    for one, drawn in zip(found["pipelines"], account.pipelines, strict=True):
        passes = list(zip(*one["passes"].values(), strict=True))
        assert passes == [tuple(row) for row in drawn.timetable.recorded]


def test_an_account_of_nobodys_making_is_text(tmp_path: Path) -> None:
    """A name of a scope may be anything, and stays within the data."""
    with tf.name_scope("a"):
        account = estimate(tf.nn.relu, tf.TensorSpec([4]))
    bad = account.steps[0].__class__(
        "</script><script>alert(1)</script>", *list(vars(account.steps[0]).values())[1:]
    )
    account.steps.append(bad)
    account.save(tmp_path / "x.html")
    assert "alert(1)</script>" not in (tmp_path / "x.html").read_text("utf-8")
    assert bad.name in data_of(tmp_path / "x.html")["accounts"][0]["names"]


def test_json_is_the_accounts_own(tmp_path: Path) -> None:
    account = estimate(tf.nn.relu, tf.TensorSpec([4]))
    account.save(str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_text("utf-8") == account.to_json()


def test_two_programs_say_what_matches(tmp_path: Path) -> None:
    """Layers that were made twice are the same, whatever their numbers."""
    one, two = convolutional(), convolutional(8)
    one.save(tmp_path / "x.html", other=two)
    data = data_of(tmp_path / "x.html")
    layers = len(one.by_layer())
    assert data["matches"].startswith(f"{layers} of {layers} layers")
    theirs = data["accounts"][1]
    assert set(theirs["names_layer"]) >= set(one.by_layer())
    rows = {name: (a, b) for name, a, b, _ in data["compared"]}
    assert rows["cycles"] == (one.cycles, two.cycles)
    assert rows["fullest tile"] == (one.memory.max_tile, two.memory.max_tile)
    assert one.diff(two).splitlines()[-1] == data["matches"]
    other = estimate(tf.nn.relu, tf.TensorSpec([4]))
    assert "0 of" in one.diff(other) or "1 of" in one.diff(other)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    account = estimate(tf.nn.relu, tf.TensorSpec([4]))
    with pytest.raises(ValueError, match=r"must end in \.html or \.json"):
        account.save(tmp_path / "x.pdf")
    with pytest.raises(ValueError, match="JSON holds one account"):
        account.save(tmp_path / "x.json", other=account)
    with pytest.raises(TypeError, match="must be an Account"):
        account.save(tmp_path / "x.html", other=3)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="The account cannot be written"):
        account.save(tmp_path / "file" / "x.html")
    with pytest.raises(FileNotFoundError, match="The account cannot be written"):
        account.save(tmp_path / "nowhere" / "x.json")


# --- in a browser ---------------------------------------------------------------------


def opened(page: Path) -> str:
    """The page after its scripts ran; nothing may complain."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("needs the browser chromium")
    done = subprocess.run(
        [
            browser,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={page.parent / 'browser'}",
            "--virtual-time-budget=5000",
            "--window-size=1280,2000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not told, told
    assert 'data-ready="yes"' in done.stdout
    return done.stdout


def rows_of(dom: str, table: str) -> list[list[str]]:
    [body] = re.findall(rf'id="{table}".*?<tbody>(.*?)</tbody>', dom, re.DOTALL)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [
        [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in cells
    ]


def test_a_browser_fills_the_tables(tmp_path: Path) -> None:
    account = pipeline()
    account.save(tmp_path / "x.html")
    dom = opened(tmp_path / "x.html")
    assert re.search(r'id="verdict" class="verdict good">fits<', dom)
    found = {row[0]: row[2] for row in rows_of(dom, "sums")}
    wanted = {
        name or "(no layer)": f"{cycles:,.0f}"
        for name, cycles in account.by_layer().items()
    }
    assert found == wanted
    tensors = {row[0] for row in rows_of(dom, "tensors")}
    assert tensors == {one.name for one in account.memory.by_tensor}
    assert "2 IPUs" in dom or '<option value="1">1</option>' in dom


def test_a_browser_shows_two_programs(tmp_path: Path) -> None:
    small = convolutional()
    machine = Machine("bow", tile_bytes=2000)
    large = estimate(tf.nn.relu, tf.TensorSpec([1 << 20]), machine=machine)
    large.save(tmp_path / "x.html", other=small)
    dom = opened(tmp_path / "x.html")
    assert re.search(r'class="verdict bad">does not fit<', dom)
    rows = {row[0]: row[1:] for row in rows_of(dom, "compared")}
    assert rows["memory"][:2] == ["does not fit", "fits"]
    assert rows["cycles"][:2] == [f"{large.cycles:,.0f}", f"{small.cycles:,.0f}"]


def test_a_browser_opens_a_large_program(tmp_path: Path) -> None:
    """50,000 steps on 64 IPUs; none is left out."""
    steps, ipus = 50_000, 64
    account = pipeline()
    step = account.steps[0].__class__
    account.steps = [
        step(
            f"layer_{i % 500}/matmul: amp",
            ("compute", "exchange")[i % 2],
            i % ipus,
            100.0 * (i // ipus),
            90.0,
            1.0,
            1472,
            f"model.py:{i % 700}",
            False,
            i + 1,
        )
        for i in range(steps)
    ]
    account.memories = account.memories[:1] * ipus
    account.pipelines = []
    account.cycles = 100.0 * (steps // ipus + 1)
    account.save(tmp_path / "x.html")
    assert (tmp_path / "x.html").stat().st_size < 4_000_000
    dom = opened(tmp_path / "x.html")
    assert "500 rows, 4,500,000 cycles of 4,500,000 on all IPUs" in dom
    assert len(rows_of(dom, "sums")) < 100  # the others come when they are scrolled to


USE = """
<script>
const send = (id, kind, more) => {
  const box = document.getElementById(id), edge = box.getBoundingClientRect();
  box.dispatchEvent(new MouseEvent(kind, {
    bubbles: true, clientX: edge.left + edge.width * (more.x || 0.5),
    clientY: edge.top + (more.y || edge.height / 2)}));
};
const wheel = (more) => document.getElementById("trace").dispatchEvent(
  new WheelEvent("wheel", {bubbles: true, cancelable: true, clientX: 600, ...more}));
wheel({ctrlKey: true, deltaY: -400});
wheel({shiftKey: true, deltaY: 50});
document.getElementById("whole").click();
for (let x = 0.1; x < 1; x += 0.01) send("trace", "mousemove", {x, y: 30});
document.title = document.getElementById("tip").textContent;
send("liveness", "mousemove", {});
send("liveness", "click", {x: 0.3});
document.getElementById("ipu").value = "1";
document.getElementById("ipu").dispatchEvent(new Event("change"));
document.querySelector('[data-tab="steps"]').click();
document.getElementById("search").value = "DENSE_";
document.getElementById("search").dispatchEvent(new Event("input"));
document.querySelector("#sums th:nth-child(5) button").click();
document.querySelector("#sums th:nth-child(5) button").click();
</script>
"""


def test_a_browser_sorts_and_searches(tmp_path: Path) -> None:
    account = pipeline()
    account.save(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text("utf-8")
    (tmp_path / "x.html").write_text(text.replace("</body>", USE + "</body>"), "utf-8")
    dom = opened(tmp_path / "x.html")
    wanted = [step for step in account.steps if "dense_" in step.name.lower()]
    # ascending, then descending
    cycles = sorted((step.cycles for step in wanted), reverse=True)
    rows = rows_of(dom, "sums")
    assert [row[4] for row in rows if len(row) > 4][:20] == [
        f"{n:,.0f}" for n in cycles[:20]
    ]
    assert f"{len(wanted)} rows, " in dom
    own = {one.name for one in account.memories[1].by_tensor}
    assert {row[0] for row in rows_of(dom, "tensors")} == own
    assert re.search(r"<title>.*cycles.*</title>", dom)  # what a step's box tells


def test_what_makes_it_fit_is_shown(tmp_path: Path) -> None:
    spec = tf.TensorSpec([512, 512])
    small = Machine("bow", tiles=64, tile_bytes=100_000)
    account = estimate(tf.matmul, spec, spec, machine=small)
    fixes = account.fixes()
    account.save(tmp_path / "x.html")
    assert fixes and not account.memory.fits
    [found] = data_of(tmp_path / "x.html")["accounts"]
    assert [row[0] for row in found["fixes"]] == [fix.change for fix in fixes]
    rows = rows_of(opened(tmp_path / "x.html"), "fixes")
    assert [row[0] for row in rows] == [fix.change for fix in fixes]


def test_the_command_writes_a_page(main: Any, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "train.py").write_text(
        "import numpy as np\n"
        "from ipu import keras\n"
        "model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((64, 8), 'f'), np.zeros((64, 2), 'f'), batch_size=16)\n"
    )
    page = tmp_path / "x.html"
    program = str(tmp_path / "train.py")
    with pytest.raises(SystemExit) as ended:
        main(["account", "--html", str(page), program])
    assert ended.value.code == 0
    assert len(data_of(page)["accounts"]) == 1
    assert "samples a second" in capsys.readouterr().out
    assert main(["account", "--html", "x.htm", program]) == 2
    assert "ends in .html" in capsys.readouterr().err
    assert main(["account", "--html", str(tmp_path / "no" / "x.html"), program]) == 2
    assert "a folder that is not there" in capsys.readouterr().err
    assert ipu.machine.Account is Account


def test_the_built_in_program_has_an_account(main: Any, capsys: Any) -> None:
    assert main(["account", "--machine", "bow", "mnist", "--pipeline", "4"]) == 0
    told = capsys.readouterr().out
    assert "Machine('bow')" in told and "Grouped, 8 micro-batches" in told
    assert main(["account", "--schedules", "mnist", "--pipeline", "4"]) == 0
    told = capsys.readouterr().out
    assert "7 schedules; nothing was trained" in told and "ZeroBubble" in told
    assert main(["account", "--schedules", "mnist"]) == 1
    assert "is not pipelined" in capsys.readouterr().err
    assert main(["account", "--schedules", "--json", "mnist"]) == 2
    assert "Leave out --json" in capsys.readouterr().err


def test_the_command_takes_the_configured_machine(
    main: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import numpy as np, ipu\n"
        "from ipu import keras\n"
        "config = ipu.config.IPUConfig()\n"
        "config.auto_select_ipus = 1\n"
        "config.ipu_model.version = 'ipu21'\n"
        "config.configure_ipu_system()\n"
        "with ipu.ipu_strategy.IPUStrategy().scope():\n"
        "    model = keras.Sequential([keras.layers.Dense(2, input_shape=(8,))])\n"
        "    model.compile('sgd', 'mse')\n"
        "    model.fit(np.zeros((64, 8), 'f'), np.zeros((64, 2), 'f'), 16)\n"
    )

    def machine(*options: str) -> str:
        with pytest.raises(SystemExit):
            main(["account", *options, str(program)])
        ipu.config.reset_ipu_configuration()
        return str(capsys.readouterr().out)

    assert "Machine('bow')" in machine()
    assert "Machine('bow', tiles=8)" in machine("--what-if", "tiles=8")
    assert "Machine('gc2')" in machine("--machine", "gc2")
    monkeypatch.setenv("IPU_MACHINE", "c600")
    assert "Machine('c600')" in machine()
    program.write_text("1 / 0")
    assert main(["account", str(program)]) == 1
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told and "nothing to account" not in told


def test_the_command_compares_schedules(main: Any, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "train.py").write_text(
        "import numpy as np\n"
        "from ipu import keras\n"
        "model = keras.SequentialPipelineModel(\n"
        "    [[keras.layers.Dense(8)], [keras.layers.Dense(2)]], 4)\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(np.zeros((64, 8), 'f'), np.zeros((64, 2), 'f'), batch_size=16)\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["account", "--schedules", str(tmp_path / "train.py")])
    assert ended.value.code == 0
    assert "7 schedules; nothing was trained" in capsys.readouterr().out


def test_what_runs_a_module_is_not_the_users_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ipu", "account", "mnist"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "frozen" not in done.stdout
