"""A pipeline's meaning: from the tree to components, edges and variables, or to all that is wrong with them."""
