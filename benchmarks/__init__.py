"""Measurements: what the product must reach, as ratios against bare operations."""
