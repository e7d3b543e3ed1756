"""Nodes that most pipelines have: sources, prompts, memory, responses, and the tools of servers outside."""
