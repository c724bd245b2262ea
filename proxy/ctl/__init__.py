"""`sluice ctl` and `sluice top`: an operator's hands and eyes, over the admin server."""
