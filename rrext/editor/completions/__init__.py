"""What an editor offers while a pipeline is typed."""
