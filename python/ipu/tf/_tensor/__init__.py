# SPDX-License-Identifier: MIT
"""Tensors as Python sees them: conversion, indexing, methods, text."""
