"""Nodes that most pipelines have: sources, prompts, memory and responses."""
