"""Tool calls as they run: places and threads, deadlines, nested calls, chunks."""
