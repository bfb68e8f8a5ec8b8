"""From a submission to new jobs: rights, bounds, terms and names are checked before an id is spent."""
