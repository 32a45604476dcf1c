"""Looking at a tape."""
