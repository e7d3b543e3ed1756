"""What an editor can ask of the server: each module registers one kind of question."""
