"""Pages with plots that need nothing from elsewhere: inline SVG and one style, for desk and phone. The standard library
only."""
