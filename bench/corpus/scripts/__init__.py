"""Programs in the manner of tutorials, each a folder whose `main` holds `objective` and `START`."""
