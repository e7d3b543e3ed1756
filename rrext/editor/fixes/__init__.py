"""What an editor offers to mend a problem: each fix is a title and edits, and leaves the rest of the text as it is."""
