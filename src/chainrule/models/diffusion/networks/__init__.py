"""Networks that denoise."""
