"""What has run: ended jobs as the history keeps them, and the questions that it is asked."""
