"""Programs as tutorials of many fields have them, each a folder whose `main` holds `objective` and `START`."""
