"""The decision service under load: what it is compared with, what it is asked, and by whom."""
