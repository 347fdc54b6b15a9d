"""Ops of one's own: a function of the host in C++, and an expression (SDK 2)."""

import json
import os
import shutil
import subprocess

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

SOURCE = """
#include <cstdint>
#include <string>
#include <vector>

extern "C" void Scale(const std::vector<const void *> &data,
                      const std::vector<std::uint32_t> &number_of_elements,
                      const std::vector<void *> &outputs,
                      const std::string &attributes, const std::string &name) {
  float by = std::stof(attributes);
  const float *x = static_cast<const float *>(data[0]);
  const float *y = static_cast<const float *>(data[1]);
  float *z = static_cast<float *>(outputs[0]);
  for (std::uint32_t i = 0; i < number_of_elements[0]; i++) z[i] = by * x[i] * y[i];
}

// the gradient of the output, the output, the two inputs
extern "C" void Scale_grad(const std::vector<void *> &data,
                           const std::vector<std::uint32_t> &number_of_elements,
                           std::vector<void *> &outputs,
                           const std::string &attributes, const std::string &name) {
  float by = std::stof(attributes);
  const float *dz = static_cast<const float *>(data[0]);
  const float *x = static_cast<const float *>(data[2]);
  const float *y = static_cast<const float *>(data[3]);
  for (std::uint32_t i = 0; i < number_of_elements[0]; i++) {
    static_cast<float *>(outputs[0])[i] = by * y[i] * dz[i];
    static_cast<float *>(outputs[1])[i] = by * x[i] * dz[i];
  }
}
"""


def my_expression(x, y, z):
    return x * x + abs(y * z - 2.0)


def my_net(x, y):
    expression = ipu.custom_ops.codelet_expression_op(my_expression, x, y, x)
    if not os.path.exists(library):
        return [expression]
    outputs = {"output_types": [tf.float32], "output_shapes": [tf.TensorShape([4])]}
    [scaled] = ipu.custom_ops.cpu_user_operation(
        [x, y],
        library,
        outs=outputs,
        name="scale",
        op_name="Scale",
        attributes="2.5",
        gradient_attributes="2.5",
    )
    dx, dy = tf.gradients(tf.reduce_sum(scaled * scaled), [x, y])
    return [expression, scaled, dx, dy]


library = os.path.join(os.getcwd(), "libscale.so")
compiler = shutil.which("g++") or shutil.which("clang++")
if compiler is not None:
    with open("scale.cpp", "w") as file:
        file.write(SOURCE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, "scale.cpp"], check=True
    )

x = tf.placeholder(tf.float32, [4])
y = tf.placeholder(tf.float32, [4])
with ipu.scopes.ipu_scope("/device:IPU:0"):
    result = ipu.ipu_compiler.compile(my_net, inputs=[x, y])

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

values = {x: np.array([1.0, 2.0, 3.0, 4.0]), y: np.array([0.5, -1.0, 2.0, 0.0])}
with tf.Session() as sess:
    found = sess.run(result, values)

print(json.dumps({"found": [one.tolist() for one in found]}))
