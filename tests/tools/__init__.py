"""The tools and the packaging."""
