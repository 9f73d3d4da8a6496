"""The agent without a step: a model and its tools."""
