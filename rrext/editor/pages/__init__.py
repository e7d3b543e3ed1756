"""Pages for people about the parts of a pipeline, shown under the pointer and beside what is offered."""
