"""What the generators in pages/ share."""
