"""The one command table behind the magics and the console command."""
