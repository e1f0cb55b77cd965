"""Experiments: what the README and results/ say, measured."""
