"""The status page: live numbers of the pipelines that a user sees, for browsers."""
