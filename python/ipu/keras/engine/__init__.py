# SPDX-License-Identifier: MIT
"""What makes layers into models and models into device programs.

The way of a call: ``call_context`` (what a call passes down), ``keras_tensor``
(symbolic values and the nodes that made them), ``functional_graph`` (nodes in order),
``training`` (models), ``sequential``. The way of a fit: ``compile_utils`` (losses and
metrics of several outputs), ``data_adapter`` and ``step_plan`` (what is fed, how
often), ``device_loop`` (the program), ``fit_loops`` (epochs, callbacks).
"""
