"""What several tests need: a process without root's powers, a disk that is nearly full."""
