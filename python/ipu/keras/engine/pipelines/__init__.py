# SPDX-License-Identifier: MIT
"""Models on several IPUs: stages, how they are chosen, their step."""
