# SPDX-License-Identifier: MIT
"""Graphs and sessions of TensorFlow 1.

In graph mode a call of an op function is not computed: the graph keeps it, as an
:class:`~ipu.tf._graph.operation.GraphOperation` of the function and its arguments. What
it will give is found by tracing it once (``record.py``). ``Session.run`` takes what the
fetches need (``plan.py``), cuts it into parts for the host and for the devices, and
traces each part by calling the same functions again, on real tensors (``frame.py``):
from there on it is a program as any other.
"""
