"""The foundation for authors of nodes: the base class, the lanes and the context of set-up."""
