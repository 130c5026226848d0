"""The generated pages of the site: each module has write(folder)."""
