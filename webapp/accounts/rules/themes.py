"""Themes that pages can have; names as the design tokens call them."""

COLOR_MODES = [("auto", "As the system"), ("light", "Light"), ("dark", "Dark")]
LIGHT_THEMES = [
    ("light", "Light"),
    ("light_colorblind", "Light, for colour blindness"),
    ("light_high_contrast", "Light, high contrast"),
]
DARK_THEMES = [
    ("dark", "Dark"),
    ("dark_dimmed", "Dark, dimmed"),
    ("dark_colorblind", "Dark, for colour blindness"),
    ("dark_high_contrast", "Dark, high contrast"),
]
