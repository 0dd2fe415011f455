"""Graphs differentiated ahead of time: functional forward and backward graphs of ATen operations."""
