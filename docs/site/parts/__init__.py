"""Code that several generators in pages/ share."""
