"""Where gangs go in the network: as close together as there is room, in the domains that they ask for."""
