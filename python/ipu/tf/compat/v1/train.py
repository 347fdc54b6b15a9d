# SPDX-License-Identifier: MIT
"""``tf.compat.v1.train``: the optimizers of TensorFlow 1, the global step, savers.

The optimizers also serve code of TensorFlow 2:
``model.compile(GradientDescentOptimizer(0.1))``. Their numbers are those of Keras's,
but for two: ``MomentumOptimizer`` keeps gradients where Keras keeps steps, and
``RMSPropOptimizer`` starts its mean at one and divides otherwise.
"""

from ipu._text.exports import export, offered
from ipu.tf.compat.v1._graphs import write_graph as write_graph
from ipu.tf.compat.v1._monitored import (
    CheckpointSaverHook as CheckpointSaverHook,
    CheckpointSaverListener as CheckpointSaverListener,
    ChiefSessionCreator as ChiefSessionCreator,
    Coordinator as Coordinator,
    FeedFnHook as FeedFnHook,
    LoggingTensorHook as LoggingTensorHook,
    MonitoredSession as MonitoredSession,
    MonitoredTrainingSession as MonitoredTrainingSession,
    NanLossDuringTrainingError as NanLossDuringTrainingError,
    NanTensorHook as NanTensorHook,
    Scaffold as Scaffold,
    SessionRunArgs as SessionRunArgs,
    SessionRunContext as SessionRunContext,
    SessionRunHook as SessionRunHook,
    SessionRunValues as SessionRunValues,
    SingularMonitoredSession as SingularMonitoredSession,
    StepCounterHook as StepCounterHook,
    StopAtStepHook as StopAtStepHook,
    SummarySaverHook as SummarySaverHook,
    start_queue_runners as start_queue_runners,
)
from ipu.tf.compat.v1._optimizers import (
    AdadeltaOptimizer as AdadeltaOptimizer,
    AdagradOptimizer as AdagradOptimizer,
    AdamOptimizer as AdamOptimizer,
    ExponentialMovingAverage as ExponentialMovingAverage,
    FtrlOptimizer as FtrlOptimizer,
    GradientDescentOptimizer as GradientDescentOptimizer,
    MomentumOptimizer as MomentumOptimizer,
    Optimizer as Optimizer,
    RMSPropOptimizer as RMSPropOptimizer,
)
from ipu.tf.compat.v1._proximal import (
    AdagradDAOptimizer as AdagradDAOptimizer,
    ProximalAdagradOptimizer as ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer as ProximalGradientDescentOptimizer,
)
from ipu.tf.compat.v1._queues import (
    QueueRunner as QueueRunner,
    add_queue_runner as add_queue_runner,
    batch as batch,
    input_producer as input_producer,
    range_input_producer as range_input_producer,
    shuffle_batch as shuffle_batch,
    slice_input_producer as slice_input_producer,
)
from ipu.tf.compat.v1._saver import (
    NewCheckpointReader as NewCheckpointReader,
    Saver as Saver,
    checkpoint_exists as checkpoint_exists,
    get_checkpoint_state as get_checkpoint_state,
    init_from_checkpoint as init_from_checkpoint,
    latest_checkpoint as latest_checkpoint,
    list_variables as list_variables,
    load_checkpoint as load_checkpoint,
    load_variable as load_variable,
)
from ipu.tf.compat.v1._steps import (
    cosine_decay as cosine_decay,
    cosine_decay_restarts as cosine_decay_restarts,
    create_global_step as create_global_step,
    exponential_decay as exponential_decay,
    get_global_step as get_global_step,
    get_or_create_global_step as get_or_create_global_step,
    global_step as global_step,
    inverse_time_decay as inverse_time_decay,
    linear_cosine_decay as linear_cosine_decay,
    natural_exp_decay as natural_exp_decay,
    piecewise_constant as piecewise_constant,
    piecewise_constant_decay as piecewise_constant_decay,
    polynomial_decay as polynomial_decay,
)

export(__name__, offered(__name__))
