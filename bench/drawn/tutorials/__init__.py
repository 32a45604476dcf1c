"""Programs as textbooks of numerical methods have them, each a folder whose `main` holds `objective` and `START`."""
