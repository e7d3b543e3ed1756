"""Git repositories, read in processes that run nothing of them: no hook, filter, pager or external diff."""
