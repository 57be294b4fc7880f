"""The policies, one file each, named as users know them."""
