"""What stands between the web server and the application: the event loop's share of every request."""
