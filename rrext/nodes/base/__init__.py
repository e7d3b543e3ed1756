"""What an author of nodes builds on: the base class, the lanes and the context of set-up."""
