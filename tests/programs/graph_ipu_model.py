"""The first graph on the IPU Model, and the reports of its parts (SDK 2.4)."""

import json
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.scopes import ipu_scope

# Make sure we append to the environment variable, in case there are
# already other flags in there.
os.environ["TF_POPLAR_FLAGS"] = (
    os.environ.get("TF_POPLAR_FLAGS", "") + " --use_ipu_model"
)

tf.disable_v2_behavior()
folder = tempfile.mkdtemp(dir=".")

# Configure arguments for targeting the IPU
cfg = IPUConfig()
cfg.auto_select_ipus = 4
cfg.ipu_model.compile_ipu_code = True
cfg.ipu_model.version = "ipu2"
cfg.ipu_model.tiles_per_ipu = 64
cfg.compilation_poplar_options = {
    "autoReport.all": "true",
    "autoReport.directory": folder,
}
cfg.configure_ipu_system()

with tf.device("cpu"):
    pa = tf.placeholder(np.float32, [2], name="a")
    pb = tf.placeholder(np.float32, [2], name="b")
    pc = tf.placeholder(np.float32, [2], name="c")


def sharded_graph(pa, pb, pc):
    with ipu.scopes.ipu_shard(0):
        o1 = pa + pb
    with ipu.scopes.ipu_shard(1):
        o2 = pa + pc
    with ipu.scopes.ipu_shard(2):
        o3 = pb + pc
    with ipu.scopes.ipu_shard(3):
        out = o1 + o2 + o3
        return out


with ipu_scope("/device:IPU:0"):
    result = ipu.ipu_compiler.compile(sharded_graph, [pa, pb, pc])

with tf.Session() as sess:
    feed = {pa: [1.0, 1.0], pb: [0.0, 1.0], pc: [1.0, 5.0]}
    values = [sess.run(result, feed_dict=feed)[0].tolist() for _ in range(2)]

reports = []
for path, _, files in os.walk(folder):
    for file in files:
        if file == "profile.json":
            with open(os.path.join(path, file)) as text:
                reports.append(json.load(text))
print(
    json.dumps(
        {
            "values": values,
            "tiles": [report["machine"]["tiles"] for report in reports],
            "ipus": [m["ipu"] for report in reports for m in report["memories"]],
            "fits": [m["fits"] for report in reports for m in report["memories"]],
            "kinds": sorted({s["kind"] for r in reports for s in r["steps"]}),
        }
    )
)
