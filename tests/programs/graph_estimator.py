"""An estimator that trains and is evaluated in turn, with code of the host (SDK 2)."""

import json

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

tf.disable_v2_behavior()

X = np.random.RandomState(1).normal(size=(64, 3)).astype(np.float32)
Y = X @ np.float32([1.0, -2.0, 0.5])


def host_fn(loss):
    worst = tf.get_variable("worst", [], initializer=tf.zeros_initializer())
    return tf.assign(worst, tf.maximum(worst, loss))


def model_fn(features, labels, mode, params):
    weights = tf.get_variable("weights", [3], initializer=tf.zeros_initializer())
    predictions = tf.reduce_sum(features * weights, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return ipu.ipu_estimator.IPUEstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean(tf.square(predictions - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
        error = tf.metrics.mean_absolute_error(labels, predictions)
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss, eval_metric_ops={"error": error}
        )
    optimizer = tf.train.GradientDescentOptimizer(params["rate"])
    return ipu.ipu_estimator.IPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss),
        host_call=(host_fn, [loss]),
    )


def input_fn(mode):
    dataset = tf.data.Dataset.from_tensor_slices((X, Y))
    if mode == tf.estimator.ModeKeys.TRAIN:
        dataset = dataset.repeat()
    return dataset.batch(16, drop_remainder=True)


ipu_options = ipu.config.IPUConfig()
ipu_options.auto_select_ipus = 1
config = ipu.ipu_run_config.RunConfig(
    ipu_run_config=ipu.ipu_run_config.IPURunConfig(
        iterations_per_loop=1, ipu_options=ipu_options
    ),
    model_dir="model",
    save_checkpoints_steps=40,
    save_summary_steps=20,
)
estimator = ipu.ipu_estimator.IPUEstimator(
    model_fn, config=config, params={"rate": 0.1}
)
metrics, _ = tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(input_fn, max_steps=80),
    tf.estimator.EvalSpec(input_fn, steps=4, throttle_secs=0),
)
first = next(iter(estimator.predict(input_fn)))
result = {
    "error": float(metrics["error"]),
    "step": int(metrics["global_step"]),
    "weights": [round(float(w), 2) for w in estimator.get_variable_value("weights")],
    "worst": bool(estimator.get_variable_value("worst") > metrics["loss"]),
    "off": abs(float(first) - float(Y[0])),
}
print(json.dumps(result))
