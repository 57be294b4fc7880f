"""What sits badly: the descheduler's plugins, one file each, and the list of them."""
