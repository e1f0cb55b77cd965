"""Every other library's method, once, by what it does."""
