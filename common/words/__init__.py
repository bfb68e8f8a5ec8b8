"""Values as text, for every client: command line, HTTP API, web page and the other daemons."""
