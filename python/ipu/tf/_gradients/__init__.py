# SPDX-License-Identifier: MIT
"""What tapes, traces and custom gradients share."""
