# SPDX-License-Identifier: MIT
"""The code that makes layers into models and models into device programs.

The way of a call: ``call_context`` (what a call passes down), ``keras_tensor``
(symbolic values and the nodes that made them), ``infer`` (their shapes),
``functional_graph`` (the nodes in order), ``functional`` and ``sequential`` (models
made of them).

The way of a fit, from ``trainer``: ``data_adapter`` and ``step_plan`` (what is fed, and
how often), ``compile_utils`` (losses and metrics of several outputs), ``program``
(the program, which later calls of ``fit`` use again), ``fit_loops`` (epochs,
executions, callbacks). ``trace_key`` says whether a model must be traced again.
"""
