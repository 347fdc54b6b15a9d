# SPDX-License-Identifier: MIT
"""The same training job on `ipu` and on its peers: `python -m benchmarks`."""
