# SPDX-License-Identifier: MIT
"""The text form of graphs: printed, read back, verified, refused where malformed."""

import ctypes
import gc
import random
import re

import pytest
from campaign.inputs import printed, spoil_words
from grouped import in_groups
from op_cases import CASES, harness
from op_cases.coverage import FLAGS, TABLE
from op_cases.model import DTYPE_NUMBERS

import ipu
from ipu import _core

STEP = """device graph
resource r0 variable id=3 "dense/kernel" float32[4,2]
resource r1 variable id=4 "dense/\\"velo\\\\city\\"" float32[4,2]
resource r2 infeed id=5 "data" float32[8,4], int32[8]
resource r3 outfeed id=6 "" float32[]
block b0(%0: int32[], %1: float32[]) {
  %2 = constant() {dtype=float32, shape=[], value=0x0000803f} : float32[]
  block b1(%3: float32[]) {
    %4, %5 = infeed_dequeue() {resource=2} : float32[8,4], int32[8]
    %6 = variable_read() {resource=0} : float32[4,2]
    %7 = matmul(%4, %6) {transpose_a=false, transpose_b=false} : float32[8,2]
    %8, %9 = sparse_cross_entropy(%7, %5) : float32[8], float32[8,2]
    %10 = matmul(%4, %9) {transpose_a=true, transpose_b=false} : float32[4,2]
    sgd_update(%10, %1) {resource=0, momentum=0.90000000000000002, slots=[1]}
    %11 = mean(%8) {axes=[0], keep_dims=false} : float32[]
    outfeed_enqueue(%11) {resource=3}
  } -> (%11)
  %12 = repeat(%0, %2) {body=b1} : float32[]
} -> (%12)
"""


def refused(text: str, *words: str, error: type[BaseException] | None = None) -> None:
    with pytest.raises(error or (ipu.tf.errors.OpError, TypeError, ValueError)) as info:
        _core.graph_round_trip(text)
    for word in words:
        assert word in str(info.value)


def changed(old: str, new: str, text: str = STEP) -> str:
    assert old in text
    return text.replace(old, new, 1)


def line_of(part: str, text: str = STEP) -> str:
    return f"line {text[: text.index(part)].count(chr(10)) + 1} of the graph"


# --- round trip -----------------------------------------------------------------------


def test_a_training_step_comes_back_as_it_was() -> None:
    assert _core.graph_round_trip(STEP) == STEP


PLACED = """host graph
block b0(%0: float32[2]) {
  %1 = exp(%0) @(device=0, shard=3) : float32[2]
  %2 = exp(%0) : float32[2]
  %3 = exp(%0) @(recomputation=1) : float32[2]
  %4 = add(%1, %3) @(stage=0) : float32[2]
  %5 = add(%2, %4) : float32[2]
} -> (%5)
"""


def test_where_a_node_runs_comes_back() -> None:
    assert _core.graph_round_trip(PLACED) == PLACED
    on_device = PLACED.replace("host", "device").replace("device=0, ", "")
    assert _core.graph_round_trip(on_device) == on_device
    for wrong in ("shard=40000", "stage=-2", "tile=1", "recomputation=-1"):
        refused(changed("stage=0", wrong, PLACED), line_of("%4", PLACED))


def test_what_differs_in_place_or_recomputation_is_not_merged() -> None:
    assert _core.graph_pass(PLACED, "merge").count("exp(") == 3
    plain = re.sub(r" @\([^)]*\)", "", PLACED)
    assert _core.graph_pass(plain, "merge").count("exp(") == 1


def test_the_gradient_of_a_node_runs_where_the_node_does() -> None:
    found = _core.graph_gradients(PLACED)
    placed = [line for line in found.splitlines() if "shard=3" in line]
    assert [line.split(" = ")[1].split("(")[0] for line in placed] == [
        "exp",
        "mul",
        "add",
    ]


SOME = [c for k, c in enumerate(CASES) if not c.slow and k % 7 == 0]


@in_groups(SOME, name=lambda case: case.id)
def test_every_form_of_a_case_comes_back(case) -> None:
    for text in (
        harness.plain(case),
        harness.chained(case, held=range(len(case.inputs)))[0],
        harness.looped(case)[0],
    ):
        once = _core.graph_round_trip(text)
        assert _core.graph_round_trip(once) == once
        for name in (
            "canonicalise",
            "fold",
            "round",
            "merge",
            "prune",
            "fuse",
            "bucket",
        ):
            after = _core.graph_pass(once, name)
            assert _core.graph_round_trip(after) == after


def test_gradients_come_back() -> None:
    for case in SOME:
        if case.smooth and not TABLE[case.op] & FLAGS["opaque"]:
            text = _core.graph_gradients(harness.weighted(case)[0])
            assert _core.graph_round_trip(text) == text


def test_what_may_be_written_in_other_ways() -> None:
    tidy = "device graph\nblock b0(%0: float32[2,3]) {\n  %1 = neg(%0) : float32[2,3]\n"
    tidy += "} -> (%1)\n"
    for text in (
        "block b0(%0:float32[2,3]){%1=neg(%0):float32[2,3]}->(%1)",
        "# a remark\nblock b0(%7: float32[2 3]) { # more\n"
        " %9 = neg(%7) : float32[2,3]\n} -> (%9)\n\n# end",
        tidy.replace("\n", "\r\n"),
        tidy.replace("  ", "\t"),
    ):
        assert _core.graph_round_trip(text) == tidy


def test_numbers_come_back_to_the_bit() -> None:
    for number in ("0.1", "1e-300", "0.99999999999999989", "1e22"):
        if float(number) < 1:
            text = "block b0(%0: float32[2]) {\n  %1, %2 = dropout(%0) "
            text += f"{{rate={number}}} : float32[2], bool[2]\n}} -> (%1)\n"
            printed = re.findall(r"rate=([^}]*)}", _core.graph_round_trip(text))[0]
            assert float(printed) == float(number)


AROUND = """device graph
resource r0 variable id=3 "v" float32[4]
resource r1 outfeed id=4 "" float32[4]
block b0(%0: float32[4], %1: int32[4], %2: int32[]) {{
  %3 = {first} : {type}
  {between}
  %7 = neg(%3) : {type}
}} -> (%7{more})
"""
TURNS = """block b1(%4: float32[4]) {
    %5 = mul(%4, %4) : float32[4]
  } -> (%5)
  %6 = repeat(%2, %0) {body=b1} : float32[4]
  outfeed_enqueue(%6) {resource=1}"""


@pytest.mark.parametrize(
    ("first", "between", "fuses"),
    [
        ("exp(%0)", "", True),
        ("exp(%0)", "outfeed_enqueue(%0) {resource=1}", True),
        ("exp(%0)", "variable_assign(%0) {resource=0}", False),
        ("exp(%0)", TURNS, False),
        ("floor_div(%1, %1)", "", True),
        ("floor_div(%1, %1)", "%5 = sin(%0) : float32[4]", True),
        ("floor_div(%1, %1)", "outfeed_enqueue(%0) {resource=1}", False),
        ("floor_div(%1, %1)", "%5 = floor_mod(%2, %2) : int32[]", False),
        ("mul(%1, %1)", "%5 = floor_mod(%2, %2) : int32[]", True),
    ],
)
def test_nothing_is_fused_past_a_write_or_a_failure(
    first: str, between: str, fuses: bool
) -> None:
    type_ = "float32[4]" if "%0" in first else "int32[4]"
    more = ", %5" if between.startswith("%5") else ""
    text = AROUND.format(first=first, between=between, type=type_, more=more)
    assert ("fused_elementwise" in _core.graph_pass(text, "fuse")) == fuses


class _Heap(ctypes.Structure):
    """What malloc of glibc says of its heap, ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena free small maps mapped most fast used unused top".split()
    ]


def in_use() -> int:
    """Return the bytes that are allocated."""
    gc.collect()
    tell = ctypes.CDLL(None).mallinfo2
    tell.restype = _Heap
    heap = tell()
    return int(heap.used + heap.mapped)


CARRIED_IN_VAIN = """device graph
block b0(%0: int32[], %1: float32[]) {
  %2 = exp(%1) : float32[]
  block b1(%3: float32[], %4: float32[]) {
    %5 = neg(%3) : float32[]
  } -> (%5, %4)
  %6, %7 = repeat(%0, %1, %2) {body=b1} : float32[], float32[]
} -> (%6)
"""


@pytest.mark.parametrize("text", [STEP, PLACED, CARRIED_IN_VAIN])
@pytest.mark.parametrize(
    "name",
    "canonicalise fold round merge prune parts attend recompute fuse bucket "
    "graph_round_trip graph_gradients graph_compile".split(),
)
def test_nothing_of_a_graph_stays_in_memory(name: str, text: str) -> None:
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("needs glibc 2.33")

    def work(times: int) -> None:
        for _ in range(times):
            if hasattr(_core, name):
                getattr(_core, name)(text)
            else:
                _core.graph_pass(text, name)

    try:
        work(5)
    except ipu.tf.errors.OpError as error:  # a gradient, of a loop
        assert name == "graph_gradients", error
        return
    grown = []
    for _ in range(4):  # a leak is there each time
        before = in_use()
        work(50)
        grown.append(in_use() - before)
    assert min(grown) < 50 * 8


# --- errors name the line -------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("device graph", "divice graph", ['expected block at "divice graph"']),
        ("variable id=3", "varyable id=3", ["expected outfeed"]),
        ("id=3", "id=x", ["expected an integer"]),
        ('"data"', "data", ['expected "']),
        ('"data"', '"data', ["expected"]),
        ("resource r1", "resource r7", ["resources numbered in order"]),
        ("float32[8,4], int32", "float99[8,4], int32", ["expected a dtype"]),
        ("%0: int32[]", "%0 int32[]", ["expected :"]),
        ("block b1", "block b3", ["blocks numbered in order"]),
        (
            "%6 = variable_read",
            "%6 = variable_raed",
            ["expected an op", "variable_raed"],
        ),
        ("transpose_a=false", "transpose_c=false", ["expected an attribute"]),
        ("transpose_a=false", "transpose_a=maybe", ["expected false"]),
        ("momentum=0.9", "momentum=fast0.9", ["expected a number"]),
        ("axes=[0]", "axes=0", ["expected ["]),
        ("value=0x0000803f", "value=12", ["expected 0x"]),
        ("{body=b1}", "{body=b4}", ["a block that stands above"]),
        ("matmul(%4, %6)", "matmul(%4, %99)", ["%99 is not defined"]),
        ("%11 = mean", "%11, %13 = mean", ["as many names as the op has outputs"]),
        ("%4, %5 = infeed", "%4 = infeed", ["as many names as the op has outputs"]),
        (": float32[8,2]\n", ": float32[8,3]\n", ["matmul gives float32[8,2]"]),
        ("-> (%11)", "(%11)", ["expected ->"]),
    ],
)
def test_a_malformed_text_names_its_line(old: str, new: str, words: list[str]) -> None:
    text = changed(old, new)
    with pytest.raises(ipu.tf.errors.InvalidArgumentError) as info:
        _core.graph_round_trip(text)
    message = str(info.value)
    for word in words:
        assert word in message, message
    where = int(re.findall(r"line (\d+) of the graph", message)[0])
    start = STEP[: STEP.index(old)].count("\n") + 1
    assert start <= where <= start + 1, message


def test_an_op_that_holds_no_block_has_none() -> None:
    """What was printed of it could not be read."""
    text = """block b0() {
  %0 = constant() {dtype=float32, shape=[], value=0x00000000} : float32[]
  block b1() {
  } -> ()
  %1 = neg(%0) {body=b1} : float32[]
} -> (%1)
"""
    with pytest.raises(ipu.tf.errors.InvalidArgumentError, match=r"line 5 .*no others"):
        _core.graph_round_trip(text)


@pytest.mark.parametrize("letter", ["n", "é", "€", "😀"])
def test_what_a_message_quotes_ends_with_a_whole_character(letter: str) -> None:
    for more in range(len(letter.encode())):
        words = "x" * more + letter * 30
        most = (23 - more) // len(letter.encode())
        quoted = f'at "{words[: more + most]}"'
        refused(changed("matmul(%4, %6)", words), "expected an op", quoted)


def test_texts_that_end_too_early_or_too_late() -> None:
    for end in range(0, len(STEP) - 2, 7):
        with pytest.raises((ipu.tf.errors.OpError, TypeError, ValueError)):
            _core.graph_round_trip(STEP[:end])
    refused(STEP + "more", "expected the end of the text", 'at "more"')


def test_broken_texts_never_do_worse_than_raise() -> None:
    """Each character in turn left out, doubled or exchanged."""
    for at in range(len(STEP)):
        for text in (
            STEP[:at] + STEP[at + 1 :],
            STEP[:at] + STEP[at] + STEP[at:],
            STEP[:at] + "%" + STEP[at + 1 :],
            STEP[:at] + "9" + STEP[at + 1 :],
        ):
            try:
                once = _core.graph_round_trip(text)
            except (ipu.tf.errors.OpError, TypeError, ValueError, MemoryError):
                continue
            assert _core.graph_round_trip(once) == once


# --- the verifier ---------------------------------------------------------------------


def single(op: str, kinds: list[str], attrs: str, out: str) -> str:
    params = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(kinds))
    names = ", ".join(f"%{i}" for i in range(len(kinds)))
    made = f"%{len(kinds)}"
    node = f"{made} = {op}({names}) {{{attrs}}} : {out}"
    return f"block b0({params}) {{\n  {node}\n}} -> ({made})\n"


def unary(op: str, attrs: str, out: str, kind: str = "float32[2,3]") -> str:
    return single(op, [kind], attrs, out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (unary("transpose", "perm=[0,0]", "float32[2,3]"), ["transpose", "perm"]),
        (unary("transpose", "perm=[1]", "float32[3,2]"), ["1 entries for 2"]),
        (unary("reshape", "shape=[5]", "float32[5]"), ["(2, 3)", "(5,)"]),
        (unary("reshape", "shape=[-6]", "float32[6]"), ["-6", "negative"]),
        (unary("sum", "axes=[2]", "float32[2,3]"), ["axis 2", "2 dimensions"]),
        (unary("sum", "axes=[1,0]", "float32[]"), ["sorted"]),
        (unary("sum", "axes=[0,0]", "float32[3]"), ["each named once"]),
        (unary("argmax", "axis=-3, dtype=int32", "int32[3]"), ["axis -3"]),
        (unary("argmax", "axis=0, dtype=uint8", "uint8[3]"), ["int32 or int64"]),
        (unary("broadcast", "shape=[3,3]", "float32[3,3]"), ["does not broadcast"]),
        (
            unary("slice", "begin=[0,1], size=[2,3], strides=[1,1]", "float32[2,3]"),
            ["axis 1", "leaves its 3"],
        ),
        (
            unary("slice", "begin=[0,0], size=[2,3], strides=[1,0]", "float32[2,3]"),
            ["stride 0"],
        ),
        (  # (size - 1) * stride is 2^64, which is 0 in 64 bits
            unary(
                "slice", f"begin=[0,0], size=[2,5], strides=[1,{2**62}]", "float32[2,5]"
            ),
            ["axis 1", "leaves its 3"],
        ),
        (unary("dropout", "rate=1.0", "float32[2,3]"), ["rate", "[0, 1)"]),
        (unary("logical_not", "", "float32[2,3]"), ["bool", "float32"]),
        (unary("exp", "", "int32[2]", "int32[2]"), ["floating-point", "int32"]),
        (
            unary("max", "axes=[0]", "float32[]", "float32[0]"),
            ["no elements (shape (0,))"],
        ),
        (unary("softmax", "", "float32[]", "float32[]"), ["at least one dimension"]),
        (
            unary("add", "", "float32[2,3]"),
            ["add: the number of inputs is 1, and has to be at least 2"],
        ),
        (
            "block b0() {\n  %0 = concat() {axis=0} : float32[2]\n} -> ()\n",
            ["concat: the number of inputs is 0, and has to be at least 1"],
        ),
        (
            "block b0(%0: float32[]) {\n  %1 = exp(%0, %0) : float32[]\n} -> ()\n",
            ["exp: the number of inputs is 2, and can be at most 1"],
        ),
        (
            unary("replica_index", "", "int32[]"),
            ["replica_index: the number of inputs is 1, and can be at most 0"],
        ),
        (unary("cast", "", "float32[2,3]"), ["the attribute dtype is missing"]),
        (unary("cast", "dtype=float64", "float64[2,3]"), ["float64", "device"]),
        (unary("one_hot", "depth=-1, axis=0", "float32[1,2]", "int32[2]"), ["depth"]),
        (unary("variable_read", "resource=0", "float32[2,3]"), ["variable_read"]),
        (unary("sum", "axes=[-1]", "float32[2]"), ["axis -1"]),
        (unary("argmax", "axis=2", "int32[2]"), ["axis 2", "2 dimensions"]),
        (unary("argmax", "axis=0", "int32[3]", "int32[0,3]"), ["without elements"]),
        (unary("broadcast", "shape=[1,1,1,1,1,1,1,1,1]", "float32[]"), ["at most 8"]),
    ],
)
def test_a_rule_that_a_node_breaks_is_named(text: str, words: list[str]) -> None:
    refused(text, "line 2 of the graph: ", *words)


@pytest.mark.parametrize(
    ("op", "kinds", "attrs", "words"),
    [
        ("add", "float32[2] int32[2]", "", "float32 and int32"),
        ("add", "float32[2] float32[3]", "", "(2,) and (3,) do not broadcast"),
        ("select", "bool[2] float32[2] int32[2]", "", "float32 and int32"),
        ("matmul", "float32[3] float32[3,2]", "", "at least two dimensions"),
        ("matmul", "float32[2,3] float32[3]", "", "at least two dimensions"),
        ("matmul", "float32[2,3] float16[3,2]", "", "float32 and float16"),
        ("matmul", "float32[2,3] float32[2,3]", "", "3 columns meet 2 rows"),
        (
            "matmul",
            "float32[3,2] float32[7,3]",
            "transpose_a=true",
            "2) (transposed) and (7, 3) do",
        ),
        (
            "matmul",
            "float32[2,3] float32[3,7]",
            "transpose_b=true",
            "(2, 3) and (3, 7) (transposed)",
        ),
        ("matmul", "float32[5,2,3] float32[4,3,7]", "", "leading dimensions"),
        ("fused_matmul", "float32[2,3] float32[3,4] float32[2]", "", "does not fit"),
        ("fused_matmul", "float32[2,3] float32[3,4] float32[4,4]", "", "does not fit"),
        ("fused_matmul", "float32[2,3] float32[3,4] float16[4]", "", "and float16"),
        ("matmul_accumulate", "float32[4] float32[2,3] float32[3,4]", "", "product is"),
        ("sparse_cross_entropy", "float32[2,3] float32[2]", "", "integer labels"),
        ("sparse_cross_entropy", "float32[2,3] int32[3]", "", "labels of shape (3,)"),
        ("sparse_cross_entropy", "float32[] int32[]", "", "at least one dimension"),
        (
            "cross_entropy",
            "float32[2,3] float32[3,2]",
            "",
            "[2,3] and labels float32[3",
        ),
        ("cross_entropy", "float32[] float32[]", "", "at least one dimension"),
    ],
)
def test_operands_that_do_not_go_together(
    op: str, kinds: str, attrs: str, words: str
) -> None:
    refused(single(op, kinds.split(), attrs, "float32[2]"), words)


@pytest.mark.parametrize(
    ("op", "kinds", "attrs", "out"),
    [
        ("select", "bool[2] float16[2] float16[2]", "", "float16[2]"),
        ("less", "float32[2,1] float32[3]", "", "bool[2,3]"),
        ("cast", "int32[2]", "dtype=float16", "float16[2]"),
        ("softmax", "float32[3]", "", "float32[3]"),
        ("argmax", "int32[2,3]", "", "int32[3]"),
        ("argmax", "int32[2,3]", "axis=-2", "int32[3]"),
        ("argmax", "int32[2,3]", "axis=1", "int32[2]"),
        ("argmax", "int32[0,3]", "axis=1", "int32[0]"),
        ("one_hot", "int32[2]", "depth=3", "float32[2,3]"),
        (
            "broadcast",
            "float32[1]",
            "shape=[1,1,1,1,1,1,1,2]",
            "float32[1,1,1,1,1,1,1,2]",
        ),
        ("broadcast", "float32[1]", "shape=[0]", "float32[0]"),
        ("sum", "float32[2,3]", "axes=[1], keep_dims=true", "float32[2,1]"),
        ("sum", "float32[2,3]", "axes=[0,1]", "float32[]"),
        ("max", "float32[0,3]", "axes=[1]", "float32[0]"),
        ("matmul", "float32[5,1,2,3] float32[4,3,7]", "", "float32[5,4,2,7]"),
        (
            "matmul",
            "float32[3,2] float32[7,3]",
            "transpose_a=true, transpose_b=true",
            "float32[2,7]",
        ),
        ("fused_matmul", "float32[2,3] float32[3,4] float32[4]", "", "float32[2,4]"),
        (
            "matmul_accumulate",
            "float32[2,4] float32[2,3] float32[3,4]",
            "",
            "float32[2,4]",
        ),
    ],
)
def test_what_a_rule_gives(op: str, kinds: str, attrs: str, out: str) -> None:
    text = "device graph\n" + single(op, kinds.split(), attrs, out)
    assert _core.graph_round_trip(text) == text.replace(" {}", "")


OPS = list(TABLE)
NEG = [OPS.index("neg"), 0, 0, -1, -1]


@pytest.mark.parametrize(
    ("code", "inputs", "out"),
    [
        (NEG, 1, "float32[2]"),
        (NEG, 16, "float32[2]"),
        (NEG * 32, 1, "float32[2]"),
        ([*NEG, OPS.index("neg"), 0, 1, -1, -1], 1, "float32[2]"),
        ([OPS.index("cast"), 1, 0, -1, -1], 1, "float16[2]"),
        ([OPS.index("add"), 0, 0, 1, -1], 2, "float32[2]"),
        ([], 1, "words of code"),
        (NEG[:4], 1, "words of code"),
        (NEG, 17, "words of code"),
        (NEG * 33, 1, "words of code"),
        ([-1, 0, 0, -1, -1], 1, "instruction 0 of"),
        ([len(OPS), 0, 0, -1, -1], 1, "instruction 0 of"),
        ([OPS.index("matmul"), 0, 0, -1, -1], 1, "instruction 0 of"),
        ([OPS.index("neg"), -1, 0, -1, -1], 1, "instruction 0 of"),
        ([OPS.index("neg"), len(DTYPE_NUMBERS), 0, -1, -1], 1, "instruction 0 of"),
        ([OPS.index("neg"), -1, 0, -1, -1, *NEG], 1, "instruction 0 of"),
        (
            [OPS.index("neg"), len(DTYPE_NUMBERS), 0, -1, -1, *NEG],
            1,
            "instruction 0 of",
        ),
        ([OPS.index("neg"), 0, -2, -1, -1], 1, "instruction 0 of"),
        ([OPS.index("neg"), 0, 1, -1, -1], 1, "instruction 0 of"),
        ([OPS.index("neg"), 0, 0, 1, -1], 1, "instruction 0 of"),
        ([OPS.index("neg"), 0, 0, -1, 1], 1, "instruction 0 of"),
        ([*NEG, OPS.index("neg"), 0, 2, -1, -1], 1, "instruction 1 of"),
    ],
)
def test_the_code_of_a_chain(code: list[int], inputs: int, out: str) -> None:
    words = ",".join(map(str, code))
    kinds = ["float32[2]"] * inputs
    text = single(
        "fused_elementwise",
        kinds,
        f"code=[{words}]",
        out if "[" in out else "float32[2]",
    )
    if "[" in out:
        assert f"code=[{words}]}} : {out}" in _core.graph_round_trip(text)
    else:
        refused(text, out)


@pytest.mark.parametrize(
    ("kinds", "node", "words"),
    [
        (["float32[2]", "float32[3]"], "add", ["(2,)", "(3,)", "do not broadcast"]),
        (["float32[2]", "int32[2]"], "add", ["float32", "int32", "tf.cast"]),
        (["float32[2,3]", "float32[2,3]"], "matmul", ["3 columns meet 2 rows"]),
        (["float32[2]", "float32[2]"], "matmul", ["at least two dimensions"]),
        (["float32[2,3]", "float32[2]"], "sparse_cross_entropy", ["integer labels"]),
        (["float32[2,3]", "int32[3]"], "sparse_cross_entropy", ["(2, 3)", "(3,)"]),
        (["float32[2,3]", "float32[3]"], "gather", ["indices must be integers"]),
        (["float32[2,3]", "float32[3,3]"], "cross_entropy", ["one type"]),
    ],
)
def test_inputs_that_do_not_fit_are_named(
    kinds: list[str], node: str, words: list[str]
) -> None:
    params = ", ".join(f"%{i}: {k}" for i, k in enumerate(kinds))
    text = f"block b0({params}) {{\n  %5 = {node}(%0, %1) : float32[2]\n}} -> (%5)\n"
    refused(text, f"line 2 of the graph: {node}: ", *words)


def test_resources_have_to_fit_their_ops() -> None:
    for number in ("2", "9", "-1"):
        text = changed("read() {resource=0}", f"read() {{resource={number}}}")
        refused(text, f"variable_read names resource {number}")
    refused(changed("slots=[1]", "slots=[3]"), "3")
    refused(changed("slots=[1]", "slots=[1,1]"), "2 slots")
    text = changed("sgd_update(%10, %1)", "sgd_update(%9, %1)")
    refused(text, "dense/kernel", "float32[4,2]", "float32[8,2]")
    for number in ("3", "4", "-1"):
        text = changed("dequeue() {resource=2}", f"dequeue() {{resource={number}}}")
        refused(text, f"infeed_dequeue names resource {number}")
    refused(changed("outfeed_enqueue(%11)", "outfeed_enqueue(%8)"), "tensor 0")
    refused(changed("outfeed_enqueue(%11)", "outfeed_enqueue(%11, %11)"), "takes 1")


def test_loops_have_to_carry_what_they_say() -> None:
    refused(changed("repeat(%0, %2)", "repeat(%0)"), "carries 0 values")
    refused(changed("repeat(%0, %2)", "repeat(%1, %2)"), "trip count", "float32[]")
    refused(changed("-> (%11)", "-> (%8)"), "keep its type", "float32[8]")
    both = "%12 = repeat(%0, %2) {body=b1} : float32[]\n"
    more = "  %13 = repeat(%0, %2) {body=b1} : float32[]\n"
    refused(changed(both, both + more))


def test_values_of_an_inner_block_stay_there() -> None:
    refused(changed("-> (%12)", "-> (%6)"))


def test_dtypes_of_the_host_stay_there() -> None:
    text = "block b0(%0: float64[2]) {\n} -> (%0)\n"
    refused(text, "float64[2] does not exist on the device", error=TypeError)
    assert _core.graph_round_trip("host graph\n" + text).startswith("host graph\n")


def test_shapes_have_limits() -> None:
    text = "block b0(%0: float32[1,1,1,1,1,1,1,1,1]) {\n} -> (%0)\n"
    refused(text, "at most 8 dimensions", "line 1")
    refused("block b0(%0: float32[-1]) {\n} -> (%0)\n", "negative")
    resource = 'resource r0 variable id=0 {}"v" {}\nblock b0() {{\n}} -> ()\n'
    refused(resource.format("", "int32[-1]"), "negative")
    refused(resource.format("in 2 parts of int32[-4] ", "int32[2]"), "negative")
    refused(resource.format("in 0 parts of int32[4] ", "int32[2]"), "2 parts or more")
    with pytest.raises((MemoryError, ipu.tf.errors.ResourceExhaustedError)):
        _core.graph_round_trip(
            text.replace("[1,1,1,1,1,1,1,1,1]", "[9999999999,9999999999]")
        )
    wide = unary("broadcast", "shape=[9999999999,9999999999]", "float32[]", "float32[]")
    with pytest.raises((MemoryError, ipu.tf.errors.ResourceExhaustedError)):
        _core.graph_round_trip(wide)


def test_an_unknown_pass_is_named() -> None:
    with pytest.raises((ValueError, ipu.tf.errors.OpError), match="fusse"):
        _core.graph_pass(STEP, "fusse")


def test_opaque_ops_say_that_they_have_no_gradient() -> None:
    graph = """block b0(%0: float32[2,2]) {
  %1 = fused_matmul(%0, %0) : float32[2,2]
} -> (%1)
"""
    with pytest.raises(ipu.tf.errors.UnimplementedError, match="has no gradient"):
        _core.graph_gradients(graph)


IN_A_LOOP = """device graph
block b0(%0: int32[], %1: float32[]) {{
  block b1(%2: float32[]) {{
    block b2(%3: float32[]) {{
      %4 = exp(%3) : float32[]
      {inner}
    }} -> (%4)
    %5 = repeat(%0, %2) {{body=b2}} : float32[]
    {outer}
  }} -> (%5)
  %6 = repeat(%0, %1) {{body=b1}} : float32[]
}} -> (%6)
"""
SPLIT = "%{0} = switch(%0) {{branches=[{1}]}} : float32[]"


@pytest.mark.parametrize("block", ["b0", "b1", "b2", "b3", "b-1", "b4294967296"])
@pytest.mark.parametrize("place", ["inner", "outer"])
@pytest.mark.parametrize("op", ["repeat", "switch"])
def test_no_block_holds_itself_or_is_held_twice(
    block: str, place: str, op: str
) -> None:
    node = f"%9 = repeat(%0, %1) {{body={block}}} : float32[]"
    if op == "switch":
        node = SPLIT.format(9, block)
    text = IN_A_LOOP.format(**{"inner": "", "outer": "", place: node})
    refused(text, f"line {6 if place == 'inner' else 9} of the graph")


def test_branches_are_different_blocks() -> None:
    text = (
        "block b0(%0: int32[], %1: float32[]) { block b1() { %2 = exp(%1) : float32[] }"
        " -> (%2) block b2() { %3 = neg(%1) : float32[] } -> (%3) "
    )
    good = text + SPLIT.format(4, "b2, b1") + " } -> (%4)"
    assert "branches=[b1,b2]" in _core.graph_round_trip(good).replace(" ", "")
    refused(text + SPLIT.format(4, "b1, b2, b1") + " } -> (%4)", "block 1")


def test_the_only_branch_gives_more_than_the_switch_takes() -> None:
    text = """device graph
block b0(%0: int32[], %1: float32[]) {
  block b1() {
  } -> (%1, %0)
  %2, %3 = switch(%0) {branches=[b1]} : float32[], int32[]
} -> (%2)
"""
    assert _core.graph_round_trip(text) == text


@pytest.mark.parametrize("activation", [-1, 4, 2**31, 2**63 - 1, 10**20])
def test_an_activation_that_does_not_exist(activation: int) -> None:
    refused(
        "block b0(%0: float32[2,3], %1: float32[3,2]) { %2 = fused_matmul(%0, %1) "
        f"{{activation={activation}}} : float32[2,2] }} -> (%2)",
        "there is no activation",
    )


@pytest.mark.parametrize("activation", [2, 3])
def test_an_activation_that_integers_do_not_have(activation: int) -> None:
    text = (
        "block b0(%0: int8[2,3], %1: int8[3,2]) { %2 = fused_matmul(%0, %1) "
        "{activation=?} : int8[2,2] } -> (%2)"
    )
    assert "activation=1" in _core.graph_round_trip(text.replace("?", "1"))
    refused(text.replace("?", str(activation)), "activation is one of floats")


@pytest.mark.parametrize("seed", range(20))
def test_damaged_text_is_refused_or_read(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(200):
        printed(spoil_words(dice.choice([STEP, PLACED]), dice))
